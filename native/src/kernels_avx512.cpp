// For x86 processors with AVX-512 and VNNI, which adds products of 8-bit integers in one instruction.
#include "kernels.h"

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>
#include <math.h>
#include <string.h>

namespace {

#define NAME "avx512"
#define HERE                                                                                                   \
  __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && \
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni")
#define WIDTH 16
#define VECTORS 4
#define ROWS 6
#define OFFSET true

typedef int32_t Quads __attribute__((vector_size(64)));

// The instruction takes unsigned weights and signed inputs.
inline Quads add_products(Quads sums, Quads weights, Quads whole) {
  return (Quads)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)weights, (__m512i)whole);
}

#include "kernels.inc"

}  // namespace

const Kernels AVX512 = KERNELS;
#endif
