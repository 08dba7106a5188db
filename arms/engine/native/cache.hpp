// Keys and values of one sequence, in half precision, one stretch of memory per tile of kTile positions.
#pragma once

#include <cstring>
#include <stdexcept>

#include "pages.hpp"

namespace draftgate {

// Per tile, layer and key-value head: keys [kTile / 16][width][16], then values [kTile][width]; width is the head's
// dimensions rounded up to 16. The keys of 16 positions lie side by side, so that scores need no sum across lanes.
class KeyValues {
 public:
  KeyValues(size_t layers, size_t heads, size_t dims, size_t capacity)
      : layers_(layers), heads_(heads), dims_(dims), width_(round_up(dims, kLanes)), capacity_(capacity),
        pages_(round_up(capacity, kTile) / kTile * tile_halves() * 2) {}

  size_t layers() const { return layers_; }
  size_t heads() const { return heads_; }
  size_t dims() const { return dims_; }
  size_t width() const { return width_; }
  size_t capacity() const { return capacity_; }
  size_t bytes() const { return pages_.bytes(); }

  uint16_t* keys(size_t tile, size_t layer, size_t head) const {
    return reinterpret_cast<uint16_t*>(pages_.data()) + tile * tile_halves() +
           (layer * heads_ + head) * 2 * kTile * width_;
  }
  uint16_t* values(size_t tile, size_t layer, size_t head) const { return keys(tile, layer, head) + kTile * width_; }

  // Writes one position's key and value of one head.
  void put(size_t layer, size_t head, size_t position, const uint16_t* key, const uint16_t* value) {
    const size_t in_tile = position % kTile;
    uint16_t* k = keys(position / kTile, layer, head) + in_tile / kLanes * width_ * kLanes + in_tile % kLanes;
    uint16_t* v = values(position / kTile, layer, head) + in_tile * width_;
    for (size_t d = 0; d < dims_; ++d) k[d * kLanes] = key[d];
    for (size_t d = 0; d < dims_; ++d) v[d] = value[d];
  }

  // Reads the first `length` positions in a layout-free order: [layer][head][position][key dims, value dims].
  void read(size_t length, uint16_t* out) const {
    for (size_t layer = 0; layer < layers_; ++layer)
      for (size_t head = 0; head < heads_; ++head)
        for (size_t position = 0; position < length; ++position) {
          const size_t in_tile = position % kTile;
          const uint16_t* k =
              keys(position / kTile, layer, head) + in_tile / kLanes * width_ * kLanes + in_tile % kLanes;
          const uint16_t* v = values(position / kTile, layer, head) + in_tile * width_;
          for (size_t d = 0; d < dims_; ++d) *out++ = k[d * kLanes];
          for (size_t d = 0; d < dims_; ++d) *out++ = v[d];
        }
  }

  // Copies the first `length` positions of another cache of the same sizes; both hold at least as many. Of the keys'
  // last 16 positions those past `length` come along and are written before they are read.
  void copy(const KeyValues& other, size_t length) {
    const size_t whole = length / kTile, rest = length % kTile;
    std::memcpy(keys(0, 0, 0), other.keys(0, 0, 0), whole * tile_halves() * sizeof(uint16_t));
    if (rest == 0) return;
    for (size_t layer = 0; layer < layers_; ++layer)
      for (size_t head = 0; head < heads_; ++head) {
        std::memcpy(keys(whole, layer, head), other.keys(whole, layer, head),
                    round_up(rest, kLanes) * width_ * sizeof(uint16_t));
        std::memcpy(values(whole, layer, head), other.values(whole, layer, head), rest * width_ * sizeof(uint16_t));
      }
  }

 private:
  size_t tile_halves() const { return layers_ * heads_ * 2 * kTile * width_; }

  size_t layers_, heads_, dims_, width_, capacity_;
  Pages pages_;
};

}  // namespace draftgate
