#define KERNELS kAvx2
#define KERNEL_NAME "avx2"
#include "law.inc"
