#define KERNELS kPortable
#define KERNEL_NAME "portable"
#include "law.inc"
