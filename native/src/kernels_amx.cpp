// For x86 processors with AMX, which multiply tiles of 16 rows of 64 bytes, and have AVX-512 with VNNI and bf16 too.
#include "kernels.h"
#include "processor.h"

#if (defined(__AMX_INT8__) && defined(__AMX_BF16__) || defined(HEEDFUL_EMULATE_AMX)) && defined(__AVX512BF16__)
#include <immintrin.h>
#ifdef HEEDFUL_EMULATE_AMX
#include "../tests/amx_emulation.h"
#define HERE processor().avx512_bf16
#else
#define HERE processor().amx
#endif

namespace {

#define NAME "amx"
#define TILED
#include "avx512.inc"
#include "kernels.inc"

}  // namespace

const Kernels AMX = KERNELS;
#endif
