// AVX-512 attention over one tile of positions: 16 positions a lane vector for scores, 16 dimensions for values.
#include "kernels.hpp"
#include "vector.hpp"

namespace draftgate::avx512 {
namespace {

// Fetches the lines of `halves` halves into the second-level cache.
inline void prefetch(const uint16_t* at, size_t halves) {
  for (size_t i = 0; i < halves; i += 32) _mm_prefetch(reinterpret_cast<const char*>(at + i), _MM_HINT_T1);
}

// Scores of R rows against P vectors of 16 positions.
template <size_t R, size_t P>
inline void scores(const uint16_t* k, const uint16_t* ahead, size_t dims, size_t width, const float* q, float* p) {
  __m512 acc[R][P];
  for (size_t r = 0; r < R; ++r)
    for (size_t i = 0; i < P; ++i) acc[r][i] = _mm512_setzero_ps();
  for (size_t d = 0; d < dims; ++d) {
    __m512 keys[P];
    prefetch(ahead + d * P * kLanes, P * kLanes);
#pragma GCC unroll 8
    for (size_t i = 0; i < P; ++i) keys[i] = load_halves(k + (i * width + d) * kLanes);
#pragma GCC unroll 8
    for (size_t r = 0; r < R; ++r) {
      const __m512 query = _mm512_set1_ps(q[r * width + d]);
#pragma GCC unroll 8
      for (size_t i = 0; i < P; ++i) acc[r][i] = _mm512_fmadd_ps(keys[i], query, acc[r][i]);
    }
  }
  for (size_t r = 0; r < R; ++r)
    for (size_t i = 0; i < P; ++i) _mm512_storeu_ps(p + r * kTile + i * kLanes, acc[r][i]);
}

// Meanwhile the values, which are as many and needed next, are fetched ahead.
template <size_t R>
void scores_of_rows(const uint16_t* k, const uint16_t* v, size_t dims, size_t width, const float* q, size_t vectors,
                    float* p) {
  const size_t step = width * kLanes;
  size_t i = 0;
  for (; i + 4 <= vectors; i += 4) scores<R, 4>(k + i * step, v + i * step, dims, width, q, p + i * kLanes);
  for (; i < vectors; ++i) scores<R, 1>(k + i * step, v + i * step, dims, width, q, p + i * kLanes);
}

// Values of R rows, S vectors of 16 dimensions, positions in order.
template <size_t R, size_t S>
inline void values(const uint16_t* v, const uint16_t* ahead, size_t width, size_t n, const float* p, float* o) {
  __m512 acc[R][S];
  for (size_t r = 0; r < R; ++r)
    for (size_t s = 0; s < S; ++s) acc[r][s] = _mm512_setzero_ps();
  for (size_t t = 0; t < n; ++t) {
    __m512 value[S];
    prefetch(ahead + t * width, S * kLanes);
#pragma GCC unroll 8
    for (size_t s = 0; s < S; ++s) value[s] = load_halves(v + t * width + s * kLanes);
#pragma GCC unroll 8
    for (size_t r = 0; r < R; ++r) {
      const __m512 weight = _mm512_set1_ps(p[r * kTile + t]);
#pragma GCC unroll 8
      for (size_t s = 0; s < S; ++s) acc[r][s] = _mm512_fmadd_ps(weight, value[s], acc[r][s]);
    }
  }
  for (size_t r = 0; r < R; ++r)
    for (size_t s = 0; s < S; ++s) _mm512_storeu_ps(o + r * width + s * kLanes, acc[r][s]);
}

template <size_t R>
void values_of_rows(const uint16_t* v, const uint16_t* next, size_t width, size_t n, const float* p, float* o) {
  size_t d = 0;
  for (; d + 4 * kLanes <= width; d += 4 * kLanes) values<R, 4>(v + d, next + d, width, n, p, o + d);
  for (; d < width; d += kLanes) values<R, 1>(v + d, next + d, width, n, p, o + d);
}

// Turns scores into weights exp(s - m); positions at and after n get zero, up to `vectors` full vectors.
inline void softmax(float* p, size_t n, size_t vectors, float* m, float* l) {
  const __m512 lowest = _mm512_set1_ps(-float_of(0x7f800000u));
  __m512 top = lowest;
  for (size_t i = 0; i * kLanes < n; ++i) {
    const __mmask16 mask = first_lanes(n - i * kLanes);
    top = _mm512_max_ps(top, _mm512_mask_loadu_ps(lowest, mask, p + i * kLanes));
  }
  *m = largest(top);
  const __m512 maximum = _mm512_set1_ps(*m);
  __m512 lanes = _mm512_setzero_ps();
  for (size_t i = 0; i < vectors; ++i) {
    const __mmask16 mask = n > i * kLanes ? first_lanes(n - i * kLanes) : __mmask16(0);
    const __m512 weight = _mm512_maskz_mov_ps(mask, exponential(_mm512_sub_ps(_mm512_loadu_ps(p + i * kLanes), maximum)));
    lanes = _mm512_add_ps(lanes, weight);
    _mm512_storeu_ps(p + i * kLanes, weight);
  }
  *l = tree(lanes);
}

template <size_t R>
void rows_of_tile(const uint16_t* k, const uint16_t* v, const uint16_t* next, size_t dims, size_t width, const float* q,
                  const int32_t* valid, float* p, float* m, float* l, float* o) {
  const size_t n = size_t(valid[R - 1]);  // rows come in order of position: the last sees most
  const size_t vectors = (n + kLanes - 1) / kLanes;
  scores_of_rows<R>(k, v, dims, width, q, vectors, p);
  for (size_t r = 0; r < R; ++r) softmax(p + r * kTile, size_t(valid[r]), vectors, m + r, l + r);
  values_of_rows<R>(v, next, width, n, p, o);
}

}  // namespace

void attend(const uint16_t* k, const uint16_t* v, const uint16_t* next, size_t dims, size_t width, const float* q,
            size_t rows, const int32_t* valid, float* p, float* m, float* l, float* o) {
  for (size_t r = 0; r < rows;) {
    const size_t left = rows - r;
    const auto run = [&](auto kernel) {
      kernel(k, v, next, dims, width, q + r * width, valid + r, p, m + r, l + r, o + r * width);
    };
    if (left >= 5) {
      run(rows_of_tile<5>), r += 5;
    } else if (left == 4) {
      run(rows_of_tile<4>), r += 4;
    } else if (left == 3) {
      run(rows_of_tile<3>), r += 3;
    } else if (left == 2) {
      run(rows_of_tile<2>), r += 2;
    } else {
      run(rows_of_tile<1>), r += 1;
    }
  }
}

void merge(float* m, float* l, float* o, float tile_m, float tile_l, const float* tile_o, size_t width) {
  const float top = *m > tile_m ? *m : tile_m;
  const __m512 old_factor = exponential(_mm512_set1_ps(*m - top)), new_factor = exponential(_mm512_set1_ps(tile_m - top));
  *m = top;
  const __m512 sum = _mm512_fmadd_ps(_mm512_set1_ps(*l), old_factor, _mm512_mul_ps(_mm512_set1_ps(tile_l), new_factor));
  *l = _mm512_cvtss_f32(sum);
  for (size_t d = 0; d < width; d += kLanes) {
    const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(tile_o + d), new_factor);
    _mm512_storeu_ps(o + d, _mm512_fmadd_ps(_mm512_loadu_ps(o + d), old_factor, scaled));
  }
}

}  // namespace draftgate::avx512
