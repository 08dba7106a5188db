// AVX2 attention over one tile of positions: 8 positions a register for scores, 8 dimensions for values.
#include "kernels.hpp"
#include "vector.hpp"

namespace draftgate::avx2 {
namespace {

inline void prefetch(const uint16_t* at) { _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1); }

// Scores of R rows against 16 positions. Meanwhile as many values are fetched ahead.
template <size_t R>
inline void scores(const uint16_t* k, const uint16_t* ahead, size_t dims, size_t width, const float* q, float* p) {
  __m256 low[R], high[R];
  for (size_t r = 0; r < R; ++r) low[r] = high[r] = _mm256_setzero_ps();
  for (size_t d = 0; d < dims; ++d) {
    prefetch(ahead + d * kLanes);
    const __m256 first = load_halves(k + d * kLanes), second = load_halves(k + d * kLanes + kHalf);
#pragma GCC unroll 8
    for (size_t r = 0; r < R; ++r) {
      const __m256 query = _mm256_set1_ps(q[r * width + d]);
      low[r] = _mm256_fmadd_ps(first, query, low[r]);
      high[r] = _mm256_fmadd_ps(second, query, high[r]);
    }
  }
  for (size_t r = 0; r < R; ++r) {
    _mm256_storeu_ps(p + r * kTile, low[r]);
    _mm256_storeu_ps(p + r * kTile + kHalf, high[r]);
  }
}

// Values of R rows, 16 dimensions, positions in order. Meanwhile the keys of the next tile are fetched ahead.
template <size_t R>
inline void values(const uint16_t* v, const uint16_t* ahead, size_t width, size_t n, const float* p, float* o) {
  __m256 low[R], high[R];
  for (size_t r = 0; r < R; ++r) low[r] = high[r] = _mm256_setzero_ps();
  for (size_t t = 0; t < n; ++t) {
    prefetch(ahead + t * width);
    const __m256 first = load_halves(v + t * width), second = load_halves(v + t * width + kHalf);
#pragma GCC unroll 8
    for (size_t r = 0; r < R; ++r) {
      const __m256 weight = _mm256_set1_ps(p[r * kTile + t]);
      low[r] = _mm256_fmadd_ps(weight, first, low[r]);
      high[r] = _mm256_fmadd_ps(weight, second, high[r]);
    }
  }
  for (size_t r = 0; r < R; ++r) {
    _mm256_storeu_ps(o + r * width, low[r]);
    _mm256_storeu_ps(o + r * width + kHalf, high[r]);
  }
}

// Turns scores into weights exp(s - m); positions at and after n get zero, up to `vectors` runs of 16.
inline void softmax(float* p, size_t n, size_t vectors, float* m, float* l) {
  const __m256 lowest = _mm256_set1_ps(-float_of(0x7f800000u));
  __m256 top = lowest;
  for (size_t i = 0; i < n; i += kHalf) {
    const __m256 mask = _mm256_castsi256_ps(first_lanes(n - i));
    top = _mm256_max_ps(top, _mm256_blendv_ps(lowest, _mm256_loadu_ps(p + i), mask));
  }
  *m = largest(top);
  const __m256 maximum = _mm256_set1_ps(*m);
  __m256 lanes[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (size_t i = 0; i < vectors * kLanes; i += kHalf) {
    const __m256 mask = _mm256_castsi256_ps(first_lanes(n > i ? n - i : 0));
    const __m256 weight = _mm256_and_ps(mask, exponential(_mm256_sub_ps(_mm256_loadu_ps(p + i), maximum)));
    __m256& lane = lanes[i / kHalf % 2];
    lane = _mm256_add_ps(lane, weight);
    _mm256_storeu_ps(p + i, weight);
  }
  *l = tree(lanes[0], lanes[1]);
}

template <size_t R>
void rows_of_tile(const uint16_t* k, const uint16_t* v, const uint16_t* next, size_t dims, size_t width, const float* q,
                  const int32_t* valid, float* p, float* m, float* l, float* o) {
  const size_t n = size_t(valid[R - 1]);  // rows come in order of position: the last sees most
  const size_t vectors = (n + kLanes - 1) / kLanes;
  const size_t step = width * kLanes;
  for (size_t i = 0; i < vectors; ++i) scores<R>(k + i * step, v + i * step, dims, width, q, p + i * kLanes);
  for (size_t r = 0; r < R; ++r) softmax(p + r * kTile, size_t(valid[r]), vectors, m + r, l + r);
  for (size_t d = 0; d < width; d += kLanes) values<R>(v + d, next + d, width, n, p, o + d);
}

}  // namespace

void attend(const uint16_t* k, const uint16_t* v, const uint16_t* next, size_t dims, size_t width, const float* q,
            size_t rows, const int32_t* valid, float* p, float* m, float* l, float* o) {
  for (size_t r = 0; r < rows;) {
    const size_t left = rows - r;
    const auto run = [&](auto kernel) {
      kernel(k, v, next, dims, width, q + r * width, valid + r, p, m + r, l + r, o + r * width);
    };
    if (left >= 6) {
      run(rows_of_tile<6>), r += 6;
    } else if (left >= 3) {
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
  const __m256 old_factor = exponential(_mm256_set1_ps(*m - top)), new_factor = exponential(_mm256_set1_ps(tile_m - top));
  *m = top;
  const __m256 sum = _mm256_fmadd_ps(_mm256_set1_ps(*l), old_factor, _mm256_mul_ps(_mm256_set1_ps(tile_l), new_factor));
  *l = _mm256_cvtss_f32(sum);
  for (size_t d = 0; d < width; d += kHalf) {
    const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(tile_o + d), new_factor);
    _mm256_storeu_ps(o + d, _mm256_fmadd_ps(_mm256_loadu_ps(o + d), old_factor, scaled));
  }
}

}  // namespace draftgate::avx2
