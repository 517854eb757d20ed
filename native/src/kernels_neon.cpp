// For ARM processors with the dot products of Armv8.2.
#include "kernels.h"
#include "processor.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include <utility>

namespace {

#define NAME "neon"
#define HERE processor().dot_products
#define WIDTH 4
#define VECTORS 4
#define ROWS 6
#define OFFSET false

typedef int32_t Quads __attribute__((vector_size(16)));

inline Quads add_products(Quads sums, Quads weights, Quads whole) {
  return (Quads)vdotq_s32((int32x4_t)sums, (int8x16_t)weights, (int8x16_t)whole);
}

#include "kernels.inc"

}  // namespace

const Kernels NEON = KERNELS;
#endif
