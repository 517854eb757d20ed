// For x86 processors with AVX-512, VNNI and products of bf16 numbers.
#include "kernels.h"
#include "processor.h"

#if defined(__AVX512BF16__) && defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>

namespace {

#define NAME "avx512_bf16"
#define HERE processor().avx512_bf16
#include "avx512.inc"
#include "kernels.inc"

}  // namespace

const Kernels AVX512_BF16 = KERNELS;
#endif
