// For x86 processors with AVX-512 and VNNI.
#include "kernels.h"

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>
#include <math.h>
#include <string.h>

namespace {

#define NAME "avx512"
#define HERE has_avx512()
#include "avx512.inc"
#include "kernels.inc"

}  // namespace

const Kernels AVX512 = KERNELS;
#endif
