// Scalar building blocks of the declared arithmetic.
#pragma once

#include <cmath>

#include "../arithmetic.hpp"

namespace draftgate::portable {

inline float exponential(float x) {
  x = kExpHigh < x ? kExpHigh : x;  // a NaN stays
  const float shifted = std::fma(x, kLog2E, kRoundMagic);
  const float n = shifted - kRoundMagic;
  float r = std::fma(n, -kLn2High, x);
  r = std::fma(n, -kLn2Low, r);
  float p = std::fma(kExp7, r, kExp6);
  p = std::fma(p, r, kExp5);
  p = std::fma(p, r, kExp4);
  p = std::fma(p, r, kExp3);
  p = std::fma(p, r, kExp2);
  p = std::fma(p, r, 1.0f);
  p = std::fma(p, r, 1.0f);
  const float scale = float_of((bits_of(shifted) - kRoundMagicBits + 127u) << 23);
  return x < kExpLow ? 0.0f : p * scale;
}

inline float greater(float a, float b) { return a > b ? a : b; }

// Sum of 16 lanes: halves are added to halves.
inline float tree(float* lane) {
  for (size_t half = kLanes / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

}  // namespace draftgate::portable
