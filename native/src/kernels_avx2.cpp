// For x86 processors with AVX2 and FMA.
#include "kernels.h"
#include "processor.h"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

namespace {

#define NAME "avx2"
#define HERE processor().avx2
#define WIDTH 8
#define VECTORS 2
#define ROWS 4
#define OFFSET false

typedef int32_t Quads __attribute__((vector_size(32)));

// The sum of two products of numbers up to 127 fits into 16 bits.
inline Quads add_products(Quads sums, Quads weights, Quads whole) {
  __m256i x = (__m256i)whole;
  __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8((__m256i)weights, x));
  return sums + (Quads)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

#include "kernels.inc"

}  // namespace

const Kernels AVX2 = KERNELS;
#endif
