// For x86 processors with AMX, which multiply tiles of 16 rows of 64 bytes, and have AVX-512 with VNNI and bf16 too.
#include "kernels.h"

#if (defined(__AMX_INT8__) && defined(__AMX_BF16__) || defined(HEEDFUL_EMULATE_AMX)) && defined(__AVX512BF16__)
#include <immintrin.h>
#include <math.h>
#include <string.h>
#ifdef HEEDFUL_EMULATE_AMX
#include "../tests/amx_emulation.h"
#else
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

// The system lets a process use tiles only after it was asked, because they make the state of threads larger.
bool has_amx() {
#ifdef HEEDFUL_EMULATE_AMX
  return true;
#else
  constexpr long REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;
  static const bool is_allowed = __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-int8") &&
                                 __builtin_cpu_supports("amx-bf16") &&
                                 !syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA);
  return is_allowed;
#endif
}

#define NAME "amx"
#define HERE has_avx512_bf16() && has_amx()
#define TILED
#include "avx512.inc"
#include "kernels.inc"

}  // namespace

const Kernels AMX = KERNELS;
#endif
