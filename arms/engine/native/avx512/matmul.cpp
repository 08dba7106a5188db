// AVX-512 VNNI matrix products. A weight block is unpacked once for up to eight columns.
#include "kernels.hpp"
#include "vector.hpp"

namespace draftgate::avx512 {
namespace {

constexpr size_t kMaxColumns = 8;
constexpr size_t kResident = 24 * 1024;  // weights kept in the first-level cache while columns pass over them
constexpr size_t kPassingColumns = 4;    // from here on results pass the caches
constexpr size_t kAhead = 8 * 1024;      // bytes of weights fetched ahead

inline __m512i broadcast4(const int8_t* q) {
  int32_t four;
  std::memcpy(&four, q, 4);
  return _mm512_set1_epi32(four);
}

template <size_t bytes>
inline void prefetch(const uint8_t* at) {
  for (size_t i = 0; i < bytes; i += 64) _mm_prefetch(reinterpret_cast<const char*>(at + i), _MM_HINT_T0);
}

// Some lines of what will be read after this product, into the second-level cache.
inline void fetch(Ahead::Stretch& stretch) {
  if (stretch.at >= stretch.end) return;
  for (size_t i = 0; i < Ahead::kLines; ++i)
    _mm_prefetch(reinterpret_cast<const char*>(stretch.at + i * Ahead::kLine), _MM_HINT_T1);
  stretch.at += Ahead::kLines * Ahead::kLine;
}

template <Type type, size_t C>
inline void group_nibbles(const uint8_t* block, size_t blocks, const Columns& a, Ahead::Stretch& stretch, __m512* acc) {
  constexpr size_t bytes = packed_bytes(type);
  const __m512i low = _mm512_set1_epi8(15);
  for (size_t b = 0; b < blocks; ++b, block += bytes) {
    __m512i total[C];
    for (size_t c = 0; c < C; ++c) total[c] = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) {
      const __m512i packed = _mm512_loadu_si512(block + 64 * j);
      const __m512i first = _mm512_and_si512(packed, low);
      const __m512i second = _mm512_and_si512(_mm512_srli_epi16(packed, 4), low);
#pragma GCC unroll 8
      for (size_t c = 0; c < C; ++c) {
        const int8_t* q = a.q + c * a.stride + b * kBlock + 8 * j;
        total[c] = _mm512_dpbusd_epi32(total[c], first, broadcast4(q));
        total[c] = _mm512_dpbusd_epi32(total[c], second, broadcast4(q + 4));
      }
    }
    if constexpr (C >= Ahead::kColumns) fetch(stretch);
    const __m512 d = load_halves(block + 256);
    const __m512 offset = type == Type::q4_1 ? load_halves(block + 288) : _mm512_mul_ps(d, _mm512_set1_ps(-8.0f));
    prefetch<bytes>(block + kAhead / bytes * bytes);
    const size_t width = a.stride / kBlock;
#pragma GCC unroll 8
    for (size_t c = 0; c < C; ++c) {
      const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(total[c]), _mm512_set1_ps(a.blocks[c * width + b].scale));
      acc[c] = _mm512_fmadd_ps(scaled, d, acc[c]);
      acc[c] = _mm512_fmadd_ps(offset, _mm512_set1_ps(a.blocks[c * width + b].sum), acc[c]);
    }
  }
}

template <size_t C>
inline void group_bytes(const uint8_t* block, size_t blocks, const Columns& a, Ahead::Stretch& stretch, __m512* acc) {
  constexpr size_t bytes = packed_bytes(Type::q8_0);
  const size_t width = a.stride / kBlock;
  for (size_t b = 0; b < blocks; ++b, block += bytes) {
    __m512i total[C];
    for (size_t c = 0; c < C; ++c) total[c] = _mm512_set1_epi32(a.blocks[c * width + b].bias);
#pragma GCC unroll 8
    for (size_t j = 0; j < 8; ++j) {
      const __m512i weights = _mm512_loadu_si512(block + 64 * j);
#pragma GCC unroll 8
      for (size_t c = 0; c < C; ++c)
        total[c] = _mm512_dpbusd_epi32(total[c], weights, broadcast4(a.q + c * a.stride + b * kBlock + 4 * j));
    }
    if constexpr (C >= Ahead::kColumns) fetch(stretch);
    const __m512 d = load_halves(block + 512);
    prefetch<bytes>(block + kAhead / bytes * bytes);
#pragma GCC unroll 8
    for (size_t c = 0; c < C; ++c) {
      const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(total[c]), _mm512_set1_ps(a.blocks[c * width + b].scale));
      acc[c] = _mm512_fmadd_ps(scaled, d, acc[c]);
    }
  }
}

template <Type type, size_t C>
inline void group_float(const uint8_t* data, size_t inputs, const Columns& a, __m512* acc) {
  for (size_t k = 0; k < inputs; ++k, data += packed_bytes(type)) {
    const __m512 weights = type == Type::f16 ? load_halves(data) : _mm512_loadu_ps(data);
#pragma GCC unroll 8
    for (size_t c = 0; c < C; ++c) acc[c] = _mm512_fmadd_ps(weights, _mm512_set1_ps(a.x[c * a.stride + k]), acc[c]);
  }
}

// What becomes of results. They leave for good from several columns: past the caches, whose lines they would otherwise
// fetch first and, a whole vocabulary apart, take from each other.
enum class Keep { set, add, check, check_and_pass };

inline bool whole_lines(const float* out, size_t stride) {
  return reinterpret_cast<uintptr_t>(out) % 64 == 0 && stride % kLanes == 0;
}

// Returns the lanes, of any output, that were not finite (when asked to check).
template <Type type, size_t C>
__mmask16 tile(const Matrix& w, size_t first, size_t last, const Columns& a, float* out, size_t stride, Keep keep) {
  const __m512i exponent = _mm512_set1_epi32(0x7f800000);
  __mmask16 bad = 0;
  const size_t steps = w.steps(), group = w.group_bytes();
  for (size_t g = first; g < last; ++g) {
    __m512 acc[C];
    for (size_t c = 0; c < C; ++c) acc[c] = _mm512_setzero_ps();
    const uint8_t* data = w.data + g * group;
    Ahead::Stretch stretch = a.ahead ? a.ahead->take() : Ahead::Stretch{nullptr, nullptr};
    if constexpr (type == Type::q8_0)
      group_bytes<C>(data, steps, a, stretch, acc);
    else if constexpr (quantised(type))
      group_nibbles<type, C>(data, steps, a, stretch, acc);
    else
      group_float<type, C>(data, steps, a, acc);
    if (a.ahead) a.ahead->done(stretch);
    const size_t rows = w.rows - g * kLanes;
    for (size_t c = 0; c < C; ++c) {
      float* target = out + c * stride + g * kLanes;
      if (keep == Keep::check_and_pass && rows >= kLanes)
        _mm512_stream_ps(target, acc[c]);
      else
        store(target, rows, keep == Keep::add ? _mm512_add_ps(load(target, rows), acc[c]) : acc[c]);
      if (keep >= Keep::check)
        bad |= _mm512_cmpeq_epi32_mask(_mm512_and_si512(_mm512_castps_si512(acc[c]), exponent), exponent);
    }
  }
  return bad;
}

template <Type type>
__mmask16 columns_of(const Matrix& w, size_t first, size_t last, const Columns& a, size_t count, float* out,
                     size_t stride, Keep keep) {
  switch (count) {
    case 1: return tile<type, 1>(w, first, last, a, out, stride, keep);
    case 2: return tile<type, 2>(w, first, last, a, out, stride, keep);
    case 3: return tile<type, 3>(w, first, last, a, out, stride, keep);
    case 4: return tile<type, 4>(w, first, last, a, out, stride, keep);
    case 5: return tile<type, 5>(w, first, last, a, out, stride, keep);
    case 6: return tile<type, 6>(w, first, last, a, out, stride, keep);
    case 7: return tile<type, 7>(w, first, last, a, out, stride, keep);
    default: return tile<type, 8>(w, first, last, a, out, stride, keep);
  }
}

template <Type type>
bool all_columns(const Matrix& w, size_t first, size_t last, const Columns& a, size_t count, float* out, size_t stride,
                 Keep keep) {
  const size_t resident = count <= kMaxColumns ? last - first : kResident / w.group_bytes();
  const size_t step = resident < 1 ? 1 : resident;
  __mmask16 bad = 0;
  for (size_t g = first; g < last; g += step) {
    const size_t end = g + step < last ? g + step : last;
    for (size_t c = 0; c < count; c += kMaxColumns) {
      const size_t n = count - c < kMaxColumns ? count - c : kMaxColumns;
      bad |= columns_of<type>(w, g, end, a.from(c), n, out + c * stride, stride, keep);
    }
  }
  return bad == 0;
}

bool product(const Matrix& w, size_t first, size_t last, const Columns& a, size_t count, float* out, size_t stride,
             Keep keep) {
  switch (w.type) {
    case Type::f32: return all_columns<Type::f32>(w, first, last, a, count, out, stride, keep);
    case Type::f16: return all_columns<Type::f16>(w, first, last, a, count, out, stride, keep);
    case Type::q4_0: return all_columns<Type::q4_0>(w, first, last, a, count, out, stride, keep);
    case Type::q4_1: return all_columns<Type::q4_1>(w, first, last, a, count, out, stride, keep);
    case Type::q8_0: return all_columns<Type::q8_0>(w, first, last, a, count, out, stride, keep);
  }
  return false;
}

}  // namespace

void matmul(const Matrix& w, size_t first, size_t last, const Columns& a, size_t count, float* out, size_t stride,
            bool add) {
  product(w, first, last, a, count, out, stride, add ? Keep::add : Keep::set);
}

bool results(const Matrix& w, size_t first, size_t last, const Columns& a, size_t count, float* out, size_t stride) {
  const bool pass = count >= kPassingColumns && whole_lines(out, stride);
  const bool finite = product(w, first, last, a, count, out, stride, pass ? Keep::check_and_pass : Keep::check);
  if (pass) _mm_sfence();  // such stores are ordered by nothing else
  return finite;
}

}  // namespace draftgate::avx512
