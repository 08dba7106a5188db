// The kernels one instruction set provides. The portable set defines the arithmetic; the others equal it bit for bit.
#pragma once

#include "matrix.hpp"

namespace draftgate {

struct Kernels {
  const char* name;

  // x [width] (a multiple of 32) to int8 with scale, sum and bias per block. False when a value is not finite.
  bool (*quantise)(const float* x, size_t width, int8_t* q, BlockScale* blocks);

  // out = x / sqrt(mean(x^2) + epsilon) * weight
  void (*norm)(const float* x, const float* weight, size_t n, float epsilon, float* out);

  // out[c * stride + row] (+)= sum over inputs of weight[row] x column c, for rows of groups [first, last).
  void (*matmul)(const Matrix& weight, size_t first, size_t last, const Columns& columns, size_t count, float* out,
                 size_t stride, bool add);

  // The same for results that leave for good: out [count][stride], not added to. False when one is not finite.
  bool (*results)(const Matrix& weight, size_t first, size_t last, const Columns& columns, size_t count, float* out,
                  size_t stride);

  // gate = gate / (1 + exp(-gate)) * up
  void (*silu)(float* gate, const float* up, size_t n);

  // Rounds to half. False when a result is not finite.
  bool (*halves)(const float* x, size_t n, uint16_t* out);

  bool (*finite)(const float* x, size_t n);

  // One tile of attention for `rows` queries of one key-value head (rows in order of position).
  // k [kTile / 16][width][16], v [kTile][width] halves; q, o [row][width]; valid[row] >= 1 positions of the tile are
  // visible to the row; p [row][kTile] scratch. Gives per row m = max score, l = sum exp(s - m), o = sum exp(s - m) v.
  // next: the keys that will be read after this tile, or anything else: they are only fetched ahead.
  void (*attend)(const uint16_t* k, const uint16_t* v, const uint16_t* next, size_t dims, size_t width, const float* q,
                 size_t rows, const int32_t* valid, float* p, float* m, float* l, float* o);

  // Folds a tile's (m, l, o) into the running (m, l, o) of a row.
  void (*merge)(float* m, float* l, float* o, float tile_m, float tile_l, const float* tile_o, size_t width);
};

namespace portable { const Kernels& kernels(); }
#if defined(DRAFTGATE_X86)
namespace avx2 { const Kernels& kernels(); }
namespace avx512 { const Kernels& kernels(); }
#endif

// The set of that name ("" for the fastest this machine runs). Throws std::invalid_argument.
const Kernels& choose_kernels(const char* name);

}  // namespace draftgate
