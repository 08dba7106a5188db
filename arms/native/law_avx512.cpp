#define KERNELS kAvx512
#define KERNEL_NAME "avx512"
#include "law.inc"
