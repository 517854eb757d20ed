// For ARM processors with the 8-bit matrix products of Armv8.6.
#include "kernels.h"
#include "processor.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_MATMUL_INT8)
#include <arm_neon.h>

namespace {

#define NAME "neon_i8mm"
#define HERE processor().matrix_products
#define PAIRED
#include "neon.inc"
#include "kernels.inc"

}  // namespace

const Kernels NEON_I8MM = KERNELS;
#endif
