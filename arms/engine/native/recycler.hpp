// Memory for results that are large and short-lived. Fresh pages cost a fault and a clearing each, some 5 % of a call
// with a few columns; so what one result gave back, the next one takes.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "pages.hpp"

namespace draftgate {

class Recycler {
 public:
  static Recycler& shared() {
    static Recycler* one = new Recycler;  // outlives every array, also while the interpreter ends
    return *one;
  }

  // At least that many bytes, of any content.
  std::unique_ptr<Pages> take(size_t bytes) {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);  // never waits: a forked child may find it held
    if (lock.owns_lock()) {
      for (size_t i = kept_.size(); i-- > 0;) {
        if (kept_[i]->bytes() < bytes || kept_[i]->bytes() > 4 * bytes + kUnit) continue;
        std::unique_ptr<Pages> found = std::move(kept_[i]);
        kept_.erase(kept_.begin() + ptrdiff_t(i));
        kept_bytes_ -= found->bytes();
        return found;
      }
    }
    return std::make_unique<Pages>(round_up(bytes < 1 ? 1 : bytes, kUnit));
  }

  void give(std::unique_ptr<Pages> pages) {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || pages->bytes() > kMostBytes) return;
    kept_bytes_ += pages->bytes();
    kept_.push_back(std::move(pages));
    while (kept_bytes_ > kMostBytes || kept_.size() > kMostKept) {
      kept_bytes_ -= kept_.front()->bytes();
      kept_.erase(kept_.begin());
    }
  }

 private:
  static constexpr size_t kUnit = 64 * 1024;
  static constexpr size_t kMostKept = 8;
  static constexpr size_t kMostBytes = size_t(8) << 20;

  std::mutex mutex_;
  std::vector<std::unique_ptr<Pages>> kept_;
  size_t kept_bytes_ = 0;
};

}  // namespace draftgate
