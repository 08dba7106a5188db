#include "kernels.hpp"
namespace draftgate::avx2 { const Kernels& kernels() { return portable::kernels(); } }
