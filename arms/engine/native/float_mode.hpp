// The floating-point mode of the declared arithmetic, for the life of the object: round to nearest even, denormals kept.
#pragma once

#if defined(DRAFTGATE_X86)
#include <immintrin.h>
#else
#include <cfenv>
#endif

namespace draftgate {

class FloatMode {
 public:
#if defined(DRAFTGATE_X86)
  FloatMode() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~FloatMode() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
#else
  FloatMode() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatMode() { std::fesetenv(&saved_); }

 private:
  std::fenv_t saved_;
#endif
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;
};

}  // namespace draftgate
