// Memory of one call: the columns in flight, shared by the threads of the pool.
#pragma once

#include <vector>

#include "matrix.hpp"
#include "model.hpp"
#include "pages.hpp"

namespace draftgate {

constexpr size_t kMaxColumns = 128;     // tokens that pass through the layers together
constexpr size_t kOwnColumns = 6;       // up to here every thread prepares its inputs itself, which saves a barrier
constexpr size_t kQueryColumns = 8;     // tokens whose queries share one reading of keys and values
constexpr size_t kApartColumns = 32;    // with so many columns a thread, each takes its own through the layers
constexpr size_t kTileColumns = 3;      // up to here threads share a long sequence tile by tile,
constexpr size_t kFewTiles = 4;         // when there are more tiles than these
constexpr size_t kMaxPartials = 16384;  // rows x tiles of attention kept apart so that threads can share a sequence

// Quantised inputs of a matrix product.
struct Inputs {
  float* x = nullptr;
  int8_t* q = nullptr;
  BlockScale* blocks = nullptr;
  size_t width = 0;   // of a column, rounded up to whole blocks
  size_t stride = 0;  // from one column to the next

  Columns columns() const { return {x, q, blocks, stride, nullptr}; }
  float* column(size_t c) const { return x + c * stride; }
};

// Hands out aligned pieces of one stretch of memory; measures when there is none yet.
class Carver {
 public:
  explicit Carver(uint8_t* base) : base_(base) {}
  template <typename T>
  T* take(size_t n) {
    const size_t at = used_;
    used_ += round_up(n * sizeof(T), 64);
    return base_ ? reinterpret_cast<T*>(base_ + at) : nullptr;
  }
  Inputs inputs(size_t columns, size_t width) {
    const size_t stride = round_up(width, kInputUnit);
    return {take<float>(columns * stride), take<int8_t>(columns * stride), take<BlockScale>(columns * (stride / kBlock)),
            round_up(width, kBlock), stride};
  }
  size_t used() const { return used_; }

 private:
  uint8_t* base_;
  size_t used_ = 0;
};

// What one thread needs for itself.
struct Own {
  Inputs normed;    // kOwnColumns wide
  Inputs attended;  // kOwnColumns wide
  int32_t* valid;   // positions of a tile visible to each row of one query group
  float* p;         // attention weights of the rows of one query group
  float* m;
  float* l;
  float* o;
  float* run_m;
  float* run_l;
  float* run_o;
  uint16_t* halves;
};

struct Workspace {
  Pages pages;
  float* residual = nullptr;  // [column][width padded]
  size_t residual_width = 0;
  Inputs normed, attended, hidden;  // inputs of q k v gate up; of output; of down
  Inputs fused, fused_inner;        // of a feature draft's fusions
  float* qkv = nullptr;             // [column][q, k, v rows]
  size_t qkv_rows = 0;
  float* up = nullptr;      // [column][feed_forward padded]
  float* queries = nullptr; // [kv head][column x group][head width]: scaled and turned
  float* cosines = nullptr; // [column][pairs]
  float* sines = nullptr;
  float* partial_m = nullptr;  // [row][tile] of attention shared by threads
  float* partial_l = nullptr;
  float* partial_o = nullptr;
  std::vector<Own> own;

  Workspace() = default;
  Workspace(const Sizes& sizes, size_t threads) {
    Carver measure(nullptr);
    carve(sizes, threads, measure);
    pages = Pages(measure.used());
    Carver real(pages.data());
    carve(sizes, threads, real);
  }

  static size_t bytes_for(const Sizes& sizes, size_t threads) {
    Workspace probe;
    Carver measure(nullptr);
    probe.carve(sizes, threads, measure);
    return measure.used();
  }

 private:
  void carve(const Sizes& s, size_t threads, Carver& from) {
    const size_t head_width = round_up(s.head_dims, kLanes), group = s.heads / s.kv_heads;
    const size_t rows = kQueryColumns * group;
    residual_width = round_up(s.width, kBlock);
    qkv_rows = s.query_rows() + 2 * s.kv_rows();
    residual = from.take<float>(kMaxColumns * residual_width);
    normed = from.inputs(kMaxColumns, s.width);
    attended = from.inputs(kMaxColumns, s.query_rows());
    hidden = from.inputs(kMaxColumns, s.feed_forward);
    if (s.feature) fused = from.inputs(kMaxColumns, 2 * s.width);
    if (s.inner_states) fused_inner = from.inputs(kMaxColumns, (2 + s.inner_states) * s.width);
    qkv = from.take<float>(kMaxColumns * qkv_rows);
    up = from.take<float>(kMaxColumns * hidden.stride);
    queries = from.take<float>(kMaxColumns * s.heads * head_width);
    cosines = from.take<float>(kMaxColumns * (s.rope_dims / 2 + 1));
    sines = from.take<float>(kMaxColumns * (s.rope_dims / 2 + 1));
    partial_m = from.take<float>(kMaxPartials);
    partial_l = from.take<float>(kMaxPartials);
    partial_o = from.take<float>(kMaxPartials * head_width);
    own.resize(threads);
    for (Own& mine : own) {
      mine.normed = from.inputs(kOwnColumns, s.width);
      mine.attended = from.inputs(kOwnColumns, s.query_rows());
      mine.valid = from.take<int32_t>(rows);
      mine.p = from.take<float>(rows * kTile);
      mine.m = from.take<float>(rows);
      mine.l = from.take<float>(rows);
      mine.o = from.take<float>(rows * head_width);
      mine.run_m = from.take<float>(rows);
      mine.run_l = from.take<float>(rows);
      mine.run_o = from.take<float>(rows * head_width);
      mine.halves = from.take<uint16_t>(2 * head_width);
    }
  }
};

}  // namespace draftgate
