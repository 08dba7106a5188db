// Chooses the kernels at run time.
#include <cmath>
#include <stdexcept>
#include <string>

#include "kernels.hpp"

namespace draftgate {
namespace {

bool runs(const std::string& name) {
  if (name == "portable") return true;
#if defined(DRAFTGATE_X86)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (name == "avx2") return avx2;
  if (name == "avx512")
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
#endif
  return false;
}

// (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24 when multiplication and addition round once, and 0 when they round twice.
bool fuses() {
  volatile float a = 1.000244140625f, c = -1.00048828125f;
  return std::fma(float(a), float(a), float(c)) == 5.9604644775390625e-8f;
}

}  // namespace

const Kernels& choose_kernels(const char* wanted) {
  const std::string name = wanted;
  if (!fuses()) throw std::runtime_error("std::fma of this system's C library does not fuse");
  if (!name.empty() && name != "portable" && name != "avx2" && name != "avx512")
    throw std::invalid_argument("unknown kernel set '" + name + "'; there are portable, avx2 and avx512");
  if (!name.empty() && !runs(name))
    throw std::invalid_argument("this machine cannot run the kernel set '" + name + "'");
#if defined(DRAFTGATE_X86)
  if (name == "avx512" || (name.empty() && runs("avx512"))) return avx512::kernels();
  if (name == "avx2" || (name.empty() && runs("avx2"))) return avx2::kernels();
#endif
  return portable::kernels();
}

}  // namespace draftgate
