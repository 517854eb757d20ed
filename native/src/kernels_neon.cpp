// For ARM processors with the dot products of Armv8.2.
#include "kernels.h"
#include "processor.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>

namespace {

#define NAME "neon"
#define HERE processor().dot_products
#include "neon.inc"
#include "kernels.inc"

}  // namespace

const Kernels NEON = KERNELS;
#endif
