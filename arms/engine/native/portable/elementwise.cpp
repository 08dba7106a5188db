// Portable kernels: quantisation, norm, activation function, conversions.
#include "elementwise.hpp"

#include "kernels.hpp"

namespace draftgate::portable {

bool quantise(const float* x, size_t width, int8_t* q, BlockScale* blocks) {
  bool finite = true;
  for (size_t b = 0; b < width / kBlock; ++b) {
    const float* block = x + b * kBlock;
    uint32_t largest = 0;  // of the magnitude's bits: NaN > infinity > every number
    for (size_t i = 0; i < kBlock; ++i) {
      const uint32_t magnitude = bits_of(block[i]) & 0x7fffffffu;
      largest = magnitude > largest ? magnitude : largest;
    }
    const bool usable = largest < 0x7f800000u;
    finite = finite && usable;
    const float peak = float_of(largest);
    const bool zero = !usable || peak < kTiniest;
    const float factor = zero ? 0.0f : 127.0f / peak;
    int32_t total = 0;
    for (size_t i = 0; i < kBlock; ++i) {
      const float scaled = zero ? 0.0f : block[i] * factor;
      const int32_t value = int32_t((scaled + kRoundMagic) - kRoundMagic);
      q[b * kBlock + i] = int8_t(value);
      total += value;
    }
    const float scale = zero ? 0.0f : peak / 127.0f;
    blocks[b] = {scale, scale * float(total), -128 * total, 0};
  }
  return finite;
}

void norm(const float* x, const float* weight, size_t n, float epsilon, float* out) {
  float lane[kLanes] = {};
  for (size_t i = 0; i < n; ++i) lane[i % kLanes] = std::fma(x[i], x[i], lane[i % kLanes]);
  const float mean = tree(lane) / float(n);
  const float factor = 1.0f / std::sqrt(mean + epsilon);
  for (size_t i = 0; i < n; ++i) out[i] = x[i] * factor * weight[i];
}

void silu(float* gate, const float* up, size_t n) {
  for (size_t i = 0; i < n; ++i) gate[i] = gate[i] / (1.0f + exponential(-gate[i])) * up[i];
}

bool halves(const float* x, size_t n, uint16_t* out) {
  bool finite = true;
  for (size_t i = 0; i < n; ++i) {
    out[i] = float_to_half(x[i]);
    finite = finite && (out[i] & 0x7c00u) != 0x7c00u;
  }
  return finite;
}

bool finite(const float* x, size_t n) {
  bool all = true;
  for (size_t i = 0; i < n; ++i) all = all && (bits_of(x[i]) & 0x7f800000u) != 0x7f800000u;
  return all;
}

void matmul(const Matrix&, size_t, size_t, const Columns&, size_t, float*, size_t, bool);
bool results(const Matrix&, size_t, size_t, const Columns&, size_t, float*, size_t);
void attend(const uint16_t*, const uint16_t*, const uint16_t*, size_t, size_t, const float*, size_t, const int32_t*,
            float*, float*, float*, float*);
void merge(float*, float*, float*, float, float, const float*, size_t);

const Kernels& kernels() {
  static const Kernels set = {"portable", quantise, norm, matmul, results, silu, halves, finite, attend, merge};
  return set;
}

}  // namespace draftgate::portable
