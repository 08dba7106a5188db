// 16 lanes of the declared arithmetic in pairs of AVX2 registers.
#pragma once

#include <immintrin.h>

#include "../arithmetic.hpp"

namespace draftgate::avx2 {

constexpr size_t kHalf = 8;  // lanes of one register

inline __m256 exponential(__m256 x) {
  x = _mm256_min_ps(_mm256_set1_ps(kExpHigh), x);  // a NaN stays: the second operand wins
  const __m256 vanishes = _mm256_cmp_ps(x, _mm256_set1_ps(kExpLow), _CMP_LT_OQ);
  const __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(kLog2E), _mm256_set1_ps(kRoundMagic));
  const __m256 n = _mm256_sub_ps(shifted, _mm256_set1_ps(kRoundMagic));
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-kLn2High), x);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(-kLn2Low), r);
  __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(kExp7), r, _mm256_set1_ps(kExp6));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExp5));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExp4));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExp3));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExp2));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  const __m256i exponent =
      _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(int(kRoundMagicBits - 127u)));
  const __m256 scale = _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  return _mm256_andnot_ps(vanishes, _mm256_mul_ps(p, scale));
}

// Sum of 16 lanes: halves are added to halves, in this order and no other.
inline float tree(__m256 low, __m256 high) {
  const __m256 eight = _mm256_add_ps(low, high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// The largest lane; only for values whose NaNs are caught elsewhere.
inline float largest(__m256 lanes) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline __m256 load_halves(const void* p) { return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p))); }

// All bits set in the first n lanes.
inline __m256i first_lanes(size_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(int(n < kHalf ? n : kHalf)), lane);
}

}  // namespace draftgate::avx2
