// Constants and exact conversions of the declared arithmetic (see ../ARITHMETIC.md). Every kernel set uses these.
#pragma once

#ifdef __FAST_MATH__
#error "the declared arithmetic forbids -ffast-math"
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace draftgate {

constexpr size_t kLanes = 16;   // output rows packed together; lanes of every float reduction
constexpr size_t kBlock = 32;   // inputs that share a scale
constexpr size_t kTile = 128;   // positions that share a softmax maximum, aligned to absolute position

constexpr float kTiniest = 1e-30f;  // a block whose largest magnitude is below this is all zeros

// exp(x): x clamped above at kExpHigh, zero below kExpLow, 2^n * P(r) with n = rint(x / ln 2), r = x - n ln 2.
constexpr float kExpHigh = 88.0f;
constexpr float kExpLow = -87.0f;
constexpr float kLog2E = 1.44269504088896341f;
constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23: adding and subtracting it rounds to an integer
constexpr uint32_t kRoundMagicBits = 0x4b400000u;
constexpr float kLn2High = 0.693359375f;
constexpr float kLn2Low = -2.12194440e-4f;
constexpr float kExp7 = 1.0f / 5040.0f;
constexpr float kExp6 = 1.0f / 720.0f;
constexpr float kExp5 = 1.0f / 120.0f;
constexpr float kExp4 = 1.0f / 24.0f;
constexpr float kExp3 = 1.0f / 6.0f;
constexpr float kExp2 = 0.5f;

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// IEEE binary16 to binary32, exact.
inline float half_to_float(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 31u;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) return float_of(sign | bits_of(float(mantissa) * 5.9604644775390625e-8f));
  if (exponent == 31) return float_of(sign | 0x7f800000u | (mantissa << 13));
  return float_of(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

// binary32 to binary16, round to nearest even; overflow becomes infinity, NaN stays NaN.
inline uint16_t float_to_half(float value) {
  const uint32_t bits = bits_of(value);
  const uint16_t sign = uint16_t((bits >> 16) & 0x8000u);
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
  if (magnitude < 0x38800000u) return sign | uint16_t(bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f));
  magnitude += 0xc8000fffu + ((magnitude >> 13) & 1u);
  return sign | uint16_t(magnitude >> 13);
}

inline size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace draftgate
