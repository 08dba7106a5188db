// 16 lanes of the declared arithmetic in AVX-512 registers.
#pragma once

#include <immintrin.h>

#include "../arithmetic.hpp"

namespace draftgate::avx512 {

inline __m512 exponential(__m512 x) {
  x = _mm512_min_ps(_mm512_set1_ps(kExpHigh), x);  // a NaN stays: the second operand wins
  const __mmask16 vanishes = _mm512_cmp_ps_mask(x, _mm512_set1_ps(kExpLow), _CMP_LT_OQ);
  const __m512 shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(kLog2E), _mm512_set1_ps(kRoundMagic));
  const __m512 n = _mm512_sub_ps(shifted, _mm512_set1_ps(kRoundMagic));
  __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-kLn2High), x);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(-kLn2Low), r);
  __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(kExp7), r, _mm512_set1_ps(kExp6));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExp5));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExp4));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExp3));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExp2));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  const __m512i exponent = _mm512_sub_epi32(_mm512_castps_si512(shifted), _mm512_set1_epi32(int(kRoundMagicBits - 127u)));
  const __m512 scale = _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
  return _mm512_mask_blend_ps(vanishes, _mm512_mul_ps(p, scale), _mm512_setzero_ps());
}

// Sum of the lanes: halves are added to halves, in this order and no other.
inline float tree(__m512 lanes) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// The largest lane; only for values whose NaNs are caught elsewhere.
inline float largest(__m512 lanes) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline __m512 load_halves(const void* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }

inline __mmask16 first_lanes(size_t n) { return n >= kLanes ? __mmask16(0xffff) : __mmask16((1u << n) - 1u); }

// The first n of 16 floats; the others read as zero and are not written. Masked stores are slow: only at an edge.
inline __m512 load(const float* p, size_t n) {
  return n >= kLanes ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(first_lanes(n), p);
}
inline void store(float* p, size_t n, __m512 value) {
  if (n >= kLanes)
    _mm512_storeu_ps(p, value);
  else
    _mm512_mask_storeu_ps(p, first_lanes(n), value);
}

}  // namespace draftgate::avx512
