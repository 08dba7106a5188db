// Portable attention over one tile of positions, and the fold of tiles into a row.
#include "elementwise.hpp"
#include "kernels.hpp"

namespace draftgate::portable {

void attend(const uint16_t* k, const uint16_t* v, const uint16_t*, size_t dims, size_t width, const float* q,
            size_t rows, const int32_t* valid, float* p, float* m, float* l, float* o) {
  for (size_t row = 0; row < rows; ++row) {
    const size_t n = size_t(valid[row]);
    float* weights = p + row * kTile;
    const float* query = q + row * width;
    float top = -float_of(0x7f800000u);
    for (size_t t = 0; t < n; ++t) {
      const uint16_t* key = k + (t / kLanes) * width * kLanes + t % kLanes;
      float score = 0.0f;
      for (size_t d = 0; d < dims; ++d) score = std::fma(half_to_float(key[d * kLanes]), query[d], score);
      weights[t] = score;
      top = greater(top, score);
    }
    float lane[kLanes] = {};
    for (size_t t = 0; t < n; ++t) {
      weights[t] = exponential(weights[t] - top);
      lane[t % kLanes] += weights[t];
    }
    m[row] = top;
    l[row] = tree(lane);
    float* out = o + row * width;
    for (size_t d = 0; d < width; ++d) out[d] = 0.0f;
    for (size_t t = 0; t < n; ++t)
      for (size_t d = 0; d < width; ++d) out[d] = std::fma(weights[t], half_to_float(v[t * width + d]), out[d]);
  }
}

void merge(float* m, float* l, float* o, float tile_m, float tile_l, const float* tile_o, size_t width) {
  const float top = greater(*m, tile_m);
  const float old_factor = exponential(*m - top), new_factor = exponential(tile_m - top);
  *m = top;
  *l = std::fma(*l, old_factor, tile_l * new_factor);
  for (size_t d = 0; d < width; ++d) o[d] = std::fma(o[d], old_factor, tile_o[d] * new_factor);
}

}  // namespace draftgate::portable
