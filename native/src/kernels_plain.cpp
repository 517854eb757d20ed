// For all processors: vectors of four numbers, which the compiler translates.

#include "kernels.h"

namespace {

#define NAME "plain"
#define HERE true
#define WIDTH 4
#define VECTORS 4
#define ROWS 2
#define OFFSET false

typedef int32_t Quads __attribute__((vector_size(16)));

inline Quads add_products(Quads sums, Quads weights, Quads whole) {
  int8_t w[16], x[16];
  memcpy(w, &weights, 16);
  memcpy(x, &whole, 16);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) sums[i] += w[4 * i + j] * x[4 * i + j];
  return sums;
}

#include "kernels.inc"

}  // namespace

const Kernels PLAIN = KERNELS;
