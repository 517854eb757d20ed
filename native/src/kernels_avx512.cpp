// For x86 processors with AVX-512 and VNNI.
#include "kernels.h"
#include "processor.h"

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>

namespace {

#define NAME "avx512"
#define HERE processor().avx512_vnni
#include "avx512.inc"
#include "kernels.inc"

}  // namespace

const Kernels AVX512 = KERNELS;
#endif
