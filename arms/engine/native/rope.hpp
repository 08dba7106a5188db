// Rotary positions by our own double-precision arithmetic: libm differs between systems.
#pragma once

#include <cstddef>
#include <vector>

namespace draftgate {

class Rope {
 public:
  Rope() = default;
  // Pair i turns by position * position_scale * base^(-2i / dims) / factors[i] (factors may be empty).
  Rope(size_t dims, double base, double position_scale, const std::vector<float>& factors);

  size_t pairs() const { return frequencies_.size(); }

  // cosines and sines [pairs] of one position, rounded to float.
  void angles(size_t position, float* cosines, float* sines) const;

 private:
  std::vector<double> frequencies_;
  double position_scale_ = 1.0;
};

}  // namespace draftgate
