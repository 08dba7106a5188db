// AVX-512 kernels: quantisation, norm, activation function, conversions.
#include "kernels.hpp"
#include "vector.hpp"

namespace draftgate::avx512 {

bool quantise(const float* x, size_t width, int8_t* q, BlockScale* blocks) {
  bool finite = true;
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  for (size_t b = 0; b < width / kBlock; ++b) {
    const __m512 low = _mm512_loadu_ps(x + b * kBlock), high = _mm512_loadu_ps(x + b * kBlock + kLanes);
    // As integers, magnitudes order NaN > infinity > every number; an integer maximum has no order to keep.
    const __m512i both = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(low), magnitude),
                                          _mm512_and_si512(_mm512_castps_si512(high), magnitude));
    const uint32_t largest = uint32_t(_mm512_reduce_max_epi32(both));
    const bool usable = largest < 0x7f800000u;
    finite = finite && usable;
    const float peak = float_of(largest);
    if (!usable || peak < kTiniest) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(q + b * kBlock), _mm256_setzero_si256());
      blocks[b] = {0.0f, 0.0f, 0, 0};
      continue;
    }
    const __m512 factor = _mm512_set1_ps(127.0f / peak);
    const __m512i first = _mm512_cvtps_epi32(_mm512_mul_ps(low, factor));
    const __m512i second = _mm512_cvtps_epi32(_mm512_mul_ps(high, factor));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q + b * kBlock), _mm512_cvtepi32_epi8(first));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q + b * kBlock + kLanes), _mm512_cvtepi32_epi8(second));
    const int32_t total = _mm512_reduce_add_epi32(_mm512_add_epi32(first, second));
    const float scale = peak / 127.0f;
    blocks[b] = {scale, scale * float(total), -128 * total, 0};
  }
  return finite;
}

void norm(const float* x, const float* weight, size_t n, float epsilon, float* out) {
  __m512 lanes = _mm512_setzero_ps();
  for (size_t i = 0; i < n; i += kLanes) {
    const __m512 value = load(x + i, n - i);
    lanes = _mm512_fmadd_ps(value, value, lanes);
  }
  const float mean = tree(lanes) / float(n);
  const __m512 root = _mm512_set1_ps(1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + epsilon))));
  for (size_t i = 0; i < n; i += kLanes) {
    const __m512 value = _mm512_mul_ps(load(x + i, n - i), root);
    store(out + i, n - i, _mm512_mul_ps(value, load(weight + i, n - i)));
  }
}

void silu(float* gate, const float* up, size_t n) {
  const __m512 one = _mm512_set1_ps(1.0f);
  for (size_t i = 0; i < n; i += kLanes) {
    const __m512 x = load(gate + i, n - i);
    const __m512 negated = _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
    const __m512 activated = _mm512_div_ps(x, _mm512_add_ps(one, exponential(negated)));
    store(gate + i, n - i, _mm512_mul_ps(activated, load(up + i, n - i)));
  }
}

bool halves(const float* x, size_t n, uint16_t* out) {
  __mmask16 bad = 0;
  const __m256i exponent = _mm256_set1_epi16(0x7c00);
  for (size_t i = 0; i < n; i += kLanes) {
    const __m256i half = _mm512_cvtps_ph(load(x + i, n - i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    bad |= _mm256_cmpeq_epi16_mask(_mm256_and_si256(half, exponent), exponent);
    if (n - i >= kLanes)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), half);
    else
      _mm256_mask_storeu_epi16(out + i, first_lanes(n - i), half);
  }
  return bad == 0;
}

bool finite(const float* x, size_t n) {
  __mmask16 bad = 0;
  const __m512i exponent = _mm512_set1_epi32(0x7f800000);
  for (size_t i = 0; i < n; i += kLanes) {
    const __m512i value = _mm512_castps_si512(load(x + i, n - i));
    bad |= _mm512_cmpeq_epi32_mask(_mm512_and_si512(value, exponent), exponent);
  }
  return bad == 0;
}

void matmul(const Matrix&, size_t, size_t, const Columns&, size_t, float*, size_t, bool);
bool results(const Matrix&, size_t, size_t, const Columns&, size_t, float*, size_t);
void attend(const uint16_t*, const uint16_t*, const uint16_t*, size_t, size_t, const float*, size_t, const int32_t*,
            float*, float*, float*, float*);
void merge(float*, float*, float*, float, float, const float*, size_t);

const Kernels& kernels() {
  static const Kernels set = {"avx512", quantise, norm, matmul, results, silu, halves, finite, attend, merge};
  return set;
}

}  // namespace draftgate::avx512
