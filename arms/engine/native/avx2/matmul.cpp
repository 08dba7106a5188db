// AVX2 matrix products, eight rows a register. A weight block is unpacked once for up to four columns.
#include "kernels.hpp"
#include "vector.hpp"

namespace draftgate::avx2 {

bool finite(const float* x, size_t n);

namespace {

constexpr size_t kMaxColumns = 4;
constexpr size_t kResident = 24 * 1024;  // weights kept in the first-level cache while columns pass over them
constexpr size_t kAhead = 8 * 1024;      // bytes of weights fetched ahead

inline __m256i broadcast4(const int8_t* q) {
  int32_t four;
  std::memcpy(&four, q, 4);
  return _mm256_set1_epi32(four);
}

inline __m256i load(const uint8_t* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }

template <size_t bytes>
inline void prefetch(const uint8_t* at) {
  for (size_t i = 0; i < bytes; i += 64) _mm_prefetch(reinterpret_cast<const char*>(at + i), _MM_HINT_T0);
}

// Half `h` (rows 8h to 8h + 7) of a group. Sixteen products of a nibble and an int8 fit in 16 bits: 16 x 15 x 127 < 2^15.
template <Type type, size_t C>
inline void group_nibbles(const uint8_t* block, size_t h, size_t blocks, const Columns& a, __m256* acc) {
  constexpr size_t bytes = packed_bytes(type);
  const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
  const size_t width = a.stride / kBlock;
  for (size_t b = 0; b < blocks; ++b, block += bytes) {
    __m256i total[C];
    for (size_t c = 0; c < C; ++c) total[c] = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) {
      const __m256i packed = load(block + 64 * j + 32 * h);
      const __m256i first = _mm256_and_si256(packed, low);
      const __m256i second = _mm256_and_si256(_mm256_srli_epi16(packed, 4), low);
#pragma GCC unroll 4
      for (size_t c = 0; c < C; ++c) {
        const int8_t* q = a.q + c * a.stride + b * kBlock + 8 * j;
        total[c] = _mm256_add_epi16(total[c], _mm256_maddubs_epi16(first, broadcast4(q)));
        total[c] = _mm256_add_epi16(total[c], _mm256_maddubs_epi16(second, broadcast4(q + 4)));
      }
    }
    const __m256 d = load_halves(block + 256 + 16 * h);
    const __m256 offset =
        type == Type::q4_1 ? load_halves(block + 288 + 16 * h) : _mm256_mul_ps(d, _mm256_set1_ps(-8.0f));
    if (h == 0) prefetch<bytes>(block + kAhead / bytes * bytes);
#pragma GCC unroll 4
    for (size_t c = 0; c < C; ++c) {
      const __m256 dot = _mm256_cvtepi32_ps(_mm256_madd_epi16(total[c], ones));
      const __m256 scaled = _mm256_mul_ps(dot, _mm256_set1_ps(a.blocks[c * width + b].scale));
      acc[c] = _mm256_fmadd_ps(scaled, d, acc[c]);
      acc[c] = _mm256_fmadd_ps(offset, _mm256_set1_ps(a.blocks[c * width + b].sum), acc[c]);
    }
  }
}

// Unsigned bytes would saturate the 16-bit pair sums: |w| x (q with w's sign) is at most 2 x 128 x 127 < 2^15.
template <size_t C>
inline void group_bytes(const uint8_t* block, size_t h, size_t blocks, const Columns& a, __m256* acc) {
  constexpr size_t bytes = packed_bytes(Type::q8_0);
  const __m256i flip = _mm256_set1_epi8(-128), ones = _mm256_set1_epi16(1);
  const size_t width = a.stride / kBlock;
  for (size_t b = 0; b < blocks; ++b, block += bytes) {
    __m256i total[C];
    for (size_t c = 0; c < C; ++c) total[c] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (size_t j = 0; j < 8; ++j) {
      const __m256i weights = _mm256_xor_si256(load(block + 64 * j + 32 * h), flip);
      const __m256i magnitude = _mm256_abs_epi8(weights);
#pragma GCC unroll 4
      for (size_t c = 0; c < C; ++c) {
        const __m256i q = broadcast4(a.q + c * a.stride + b * kBlock + 4 * j);
        const __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(q, weights));
        total[c] = _mm256_add_epi32(total[c], _mm256_madd_epi16(pairs, ones));
      }
    }
    const __m256 d = load_halves(block + 512 + 16 * h);
    if (h == 0) prefetch<bytes>(block + kAhead / bytes * bytes);
#pragma GCC unroll 4
    for (size_t c = 0; c < C; ++c) {
      const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(total[c]), _mm256_set1_ps(a.blocks[c * width + b].scale));
      acc[c] = _mm256_fmadd_ps(scaled, d, acc[c]);
    }
  }
}

template <Type type, size_t C>
inline void group_float(const uint8_t* data, size_t h, size_t inputs, const Columns& a, __m256* acc) {
  for (size_t k = 0; k < inputs; ++k, data += packed_bytes(type)) {
    const __m256 weights = type == Type::f16 ? load_halves(data + 16 * h)
                                             : _mm256_loadu_ps(reinterpret_cast<const float*>(data + 32 * h));
#pragma GCC unroll 4
    for (size_t c = 0; c < C; ++c) acc[c] = _mm256_fmadd_ps(weights, _mm256_set1_ps(a.x[c * a.stride + k]), acc[c]);
  }
}

template <Type type, size_t C>
void tile(const Matrix& w, size_t first, size_t last, const Columns& a, float* out, size_t stride, bool add) {
  const size_t steps = w.steps(), group = w.group_bytes();
  for (size_t g = first; g < last; ++g)
    for (size_t h = 0; h < 2 && g * kLanes + h * kHalf < w.rows; ++h) {
      __m256 acc[C];
      for (size_t c = 0; c < C; ++c) acc[c] = _mm256_setzero_ps();
      const uint8_t* data = w.data + g * group;
      if constexpr (type == Type::q8_0)
        group_bytes<C>(data, h, steps, a, acc);
      else if constexpr (quantised(type))
        group_nibbles<type, C>(data, h, steps, a, acc);
      else
        group_float<type, C>(data, h, steps, a, acc);
      const size_t row = g * kLanes + h * kHalf;
      const __m256i mask = first_lanes(w.rows - row);
      for (size_t c = 0; c < C; ++c) {
        float* target = out + c * stride + row;
        const __m256 value = add ? _mm256_add_ps(_mm256_maskload_ps(target, mask), acc[c]) : acc[c];
        _mm256_maskstore_ps(target, mask, value);
      }
    }
}

template <Type type>
void columns_of(const Matrix& w, size_t first, size_t last, const Columns& a, size_t count, float* out, size_t stride,
                bool add) {
  switch (count) {
    case 1: return tile<type, 1>(w, first, last, a, out, stride, add);
    case 2: return tile<type, 2>(w, first, last, a, out, stride, add);
    case 3: return tile<type, 3>(w, first, last, a, out, stride, add);
    default: return tile<type, 4>(w, first, last, a, out, stride, add);
  }
}

template <Type type>
void all_columns(const Matrix& w, size_t first, size_t last, const Columns& a, size_t count, float* out, size_t stride,
                 bool add) {
  const size_t resident = count <= kMaxColumns ? last - first : kResident / w.group_bytes();
  const size_t step = resident < 1 ? 1 : resident;
  for (size_t g = first; g < last; g += step) {
    const size_t end = g + step < last ? g + step : last;
    for (size_t c = 0; c < count; c += kMaxColumns) {
      const size_t n = count - c < kMaxColumns ? count - c : kMaxColumns;
      columns_of<type>(w, g, end, a.from(c), n, out + c * stride, stride, add);
    }
  }
}

}  // namespace

void matmul(const Matrix& w, size_t first, size_t last, const Columns& a, size_t count, float* out, size_t stride,
            bool add) {
  switch (w.type) {
    case Type::f32: return all_columns<Type::f32>(w, first, last, a, count, out, stride, add);
    case Type::f16: return all_columns<Type::f16>(w, first, last, a, count, out, stride, add);
    case Type::q4_0: return all_columns<Type::q4_0>(w, first, last, a, count, out, stride, add);
    case Type::q4_1: return all_columns<Type::q4_1>(w, first, last, a, count, out, stride, add);
    case Type::q8_0: return all_columns<Type::q8_0>(w, first, last, a, count, out, stride, add);
  }
}

bool results(const Matrix& w, size_t first, size_t last, const Columns& columns, size_t count, float* out,
             size_t stride) {
  matmul(w, first, last, columns, count, out, stride, false);
  const size_t from = first * kLanes, to = last * kLanes < w.rows ? last * kLanes : w.rows;
  bool all = true;
  for (size_t c = 0; c < count && from < to; ++c) all = finite(out + c * stride + from, to - from) && all;
  return all;
}

}  // namespace draftgate::avx2
