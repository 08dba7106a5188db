// AVX2 kernels: quantisation, norm, activation function, conversions.
#include "kernels.hpp"
#include "vector.hpp"

namespace draftgate::avx2 {
namespace {

uint32_t largest_of(__m256i v) {
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return uint32_t(_mm_cvtsi128_si32(four));
}

int32_t sum_of(__m256i v) {
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return _mm_cvtsi128_si32(four);
}

}  // namespace

bool quantise(const float* x, size_t width, int8_t* q, BlockScale* blocks) {
  bool finite = true;
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  for (size_t b = 0; b < width / kBlock; ++b) {
    __m256 part[4];
    __m256i most = _mm256_setzero_si256();
    for (size_t i = 0; i < 4; ++i) {
      part[i] = _mm256_loadu_ps(x + b * kBlock + i * kHalf);
      most = _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(part[i]), magnitude));
    }
    const uint32_t largest = largest_of(most);  // NaN > infinity > every number
    const bool usable = largest < 0x7f800000u;
    finite = finite && usable;
    const float peak = float_of(largest);
    if (!usable || peak < kTiniest) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(q + b * kBlock), _mm256_setzero_si256());
      blocks[b] = {0.0f, 0.0f, 0, 0};
      continue;
    }
    const __m256 factor = _mm256_set1_ps(127.0f / peak);
    __m256i whole[4];
    for (size_t i = 0; i < 4; ++i) whole[i] = _mm256_cvtps_epi32(_mm256_mul_ps(part[i], factor));
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(whole[0], whole[1]), _mm256_packs_epi32(whole[2], whole[3]));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // packing works within 128-bit halves
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q + b * kBlock), _mm256_permutevar8x32_epi32(packed, order));
    const int32_t total = sum_of(_mm256_add_epi32(_mm256_add_epi32(whole[0], whole[1]), _mm256_add_epi32(whole[2], whole[3])));
    const float scale = peak / 127.0f;
    blocks[b] = {scale, scale * float(total), -128 * total, 0};
  }
  return finite;
}

void norm(const float* x, const float* weight, size_t n, float epsilon, float* out) {
  __m256 lanes[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (size_t i = 0; i < n; i += kHalf) {
    const __m256 value = _mm256_maskload_ps(x + i, first_lanes(n - i));
    __m256& lane = lanes[i / kHalf % 2];
    lane = _mm256_fmadd_ps(value, value, lane);
  }
  const float mean = tree(lanes[0], lanes[1]) / float(n);
  const __m256 root = _mm256_set1_ps(1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + epsilon))));
  for (size_t i = 0; i < n; i += kHalf) {
    const __m256i mask = first_lanes(n - i);
    const __m256 value = _mm256_mul_ps(_mm256_maskload_ps(x + i, mask), root);
    _mm256_maskstore_ps(out + i, mask, _mm256_mul_ps(value, _mm256_maskload_ps(weight + i, mask)));
  }
}

void silu(float* gate, const float* up, size_t n) {
  const __m256 one = _mm256_set1_ps(1.0f), sign = _mm256_set1_ps(-0.0f);
  for (size_t i = 0; i < n; i += kHalf) {
    const __m256i mask = first_lanes(n - i);
    const __m256 x = _mm256_maskload_ps(gate + i, mask);
    const __m256 activated = _mm256_div_ps(x, _mm256_add_ps(one, exponential(_mm256_xor_ps(x, sign))));
    _mm256_maskstore_ps(gate + i, mask, _mm256_mul_ps(activated, _mm256_maskload_ps(up + i, mask)));
  }
}

bool halves(const float* x, size_t n, uint16_t* out) {
  __m128i bad = _mm_setzero_si128();
  const __m128i exponent = _mm_set1_epi16(0x7c00);
  for (size_t i = 0; i < n; i += kHalf) {
    const __m256 value = _mm256_maskload_ps(x + i, first_lanes(n - i));
    const __m128i half = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
    bad = _mm_or_si128(bad, _mm_cmpeq_epi16(_mm_and_si128(half, exponent), exponent));
    if (n - i >= kHalf) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), half);
    } else {
      uint16_t rest[kHalf];
      _mm_storeu_si128(reinterpret_cast<__m128i*>(rest), half);
      std::memcpy(out + i, rest, (n - i) * sizeof(uint16_t));
    }
  }
  return _mm_testz_si128(bad, bad) != 0;
}

bool finite(const float* x, size_t n) {
  __m256i bad = _mm256_setzero_si256();
  const __m256i exponent = _mm256_set1_epi32(0x7f800000);
  for (size_t i = 0; i < n; i += kHalf) {
    const __m256i value = _mm256_castps_si256(_mm256_maskload_ps(x + i, first_lanes(n - i)));
    bad = _mm256_or_si256(bad, _mm256_cmpeq_epi32(_mm256_and_si256(value, exponent), exponent));
  }
  return _mm256_testz_si256(bad, bad) != 0;
}

void matmul(const Matrix&, size_t, size_t, const Columns&, size_t, float*, size_t, bool);
bool results(const Matrix&, size_t, size_t, const Columns&, size_t, float*, size_t);
void attend(const uint16_t*, const uint16_t*, const uint16_t*, size_t, size_t, const float*, size_t, const int32_t*,
            float*, float*, float*, float*);
void merge(float*, float*, float*, float, float, const float*, size_t);

const Kernels& kernels() {
  static const Kernels set = {"avx2", quantise, norm, matmul, results, silu, halves, finite, attend, merge};
  return set;
}

}  // namespace draftgate::avx2
