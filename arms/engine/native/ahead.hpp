// Memory that will be read soon, fetched while a product of several columns, which leaves memory idle, is computed.
#pragma once

#include <vector>

#include "arithmetic.hpp"

namespace draftgate {

class Ahead {
 public:
  static constexpr size_t kLine = 64;    // bytes
  static constexpr size_t kColumns = 4;  // from here on a product waits for the multiplier, not for memory
  static constexpr size_t kLines = 3;    // fetched for each block of weights: 8 columns and 200 positions each need 2.9

  void clear() { pieces_.clear(), next_ = 0, lines_ = 0, at_ = end_ = nullptr; }

  void add(const void* at, size_t bytes) {
    pieces_.push_back({static_cast<const uint8_t*>(at), bytes});
    lines_ += bytes / kLine;
  }

  size_t lines() const { return lines_; }

  // A product takes the rest of one piece, and gives back how far it came.
  struct Stretch {
    const uint8_t* at;
    const uint8_t* end;
  };
  Stretch take() {
    if (at_ >= end_ && next_ < pieces_.size()) {
      at_ = pieces_[next_].at;
      end_ = at_ + pieces_[next_++].bytes;
    }
    return {at_, end_};
  }
  void done(Stretch rest) { at_ = rest.at; }

 private:
  struct Piece {
    const uint8_t* at;
    size_t bytes;
  };
  std::vector<Piece> pieces_;
  size_t next_ = 0, lines_ = 0;
  const uint8_t* at_ = nullptr;
  const uint8_t* end_ = nullptr;
};

}  // namespace draftgate
