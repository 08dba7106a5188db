#include "rope.hpp"

#include <cstdint>
#include <cstring>

#include "arithmetic.hpp"

namespace draftgate {
namespace {

// Only + - x / of IEEE doubles, in written order: the same on every machine. Errors are below 1e-13.

double power_of_two(int n) {
  const uint64_t bits = uint64_t(1023 + n) << 52;
  double value;
  std::memcpy(&value, &bits, 8);
  return value;
}

// Logarithm of a normal positive number: x = 2^e f, f in [0.7, 1.5), ln f = 2 artanh((f - 1) / (f + 1)).
double logarithm(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, 8);
  int e = int(bits >> 52) - 1023;
  bits = (bits & 0xfffffffffffffull) | (uint64_t(1023) << 52);
  double f;
  std::memcpy(&f, &bits, 8);
  if (f > 1.4142135623730951) f = f * 0.5, ++e;
  const double s = (f - 1.0) / (f + 1.0), s2 = s * s;
  double series = 0.0;
  for (int k = 41; k >= 1; k -= 2) series = series * s2 + 1.0 / double(k);
  return 2.0 * s * series + double(e) * 0.6931471805599453094;
}

double exponential(double x) {
  const double scaled = x * 1.4426950408889634074;
  const int n = int(scaled + (scaled < 0 ? -0.5 : 0.5));
  const double r = (x - double(n) * 0.693147180369123816490) - double(n) * 1.90821492927058770002e-10;
  double p = 1.0;
  for (int k = 18; k >= 1; --k) p = 1.0 + p * r / double(k);
  return p * power_of_two(n);
}

void sine_cosine(double x, double* sine, double* cosine) {
  const double turns = x * 0.63661977236758134308;  // 2 / pi
  const int64_t n = int64_t(turns + 0.5);            // x is never negative
  // pi / 2 in three parts, the first two with 33 bits, so that the products with n < 2^20 are exact.
  const double r = ((x - double(n) * 1.57079632673412561417) - double(n) * 6.07710050630396597660e-11) -
                   double(n) * 2.02226624879595063154e-21;
  const double r2 = r * r;
  double s = 1.0, c = 1.0;
  for (int k = 20; k >= 2; k -= 2) s = 1.0 - s * r2 / double(k * (k + 1));
  for (int k = 19; k >= 1; k -= 2) c = 1.0 - c * r2 / double(k * (k + 1));
  s = s * r;
  switch (n & 3) {
    case 0: *sine = s, *cosine = c; break;
    case 1: *sine = c, *cosine = -s; break;
    case 2: *sine = -s, *cosine = -c; break;
    default: *sine = -c, *cosine = s; break;
  }
}

}  // namespace

Rope::Rope(size_t dims, double base, double position_scale, const std::vector<float>& factors)
    : position_scale_(position_scale) {
  const double log_base = logarithm(base);
  for (size_t i = 0; i < dims / 2; ++i) {
    double frequency = exponential(-(double(2 * i) / double(dims)) * log_base);
    if (i < factors.size()) frequency = frequency / double(factors[i]);
    frequencies_.push_back(frequency);
  }
}

void Rope::angles(size_t position, float* cosines, float* sines) const {
  for (size_t i = 0; i < frequencies_.size(); ++i) {
    double sine, cosine;
    sine_cosine(double(position) * position_scale_ * frequencies_[i], &sine, &cosine);
    cosines[i] = float(cosine);
    sines[i] = float(sine);
  }
}

}  // namespace draftgate
