// This file is compiled for any processor of its kind, because it runs before the kernels are chosen. It reads the
// processor itself: `__builtin_cpu_supports` of some compilers finds nothing in a library.
#include "processor.h"

#include <cstdint>
#include <initializer_list>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif
#if defined(__linux__)
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

#if defined(__x86_64__)
bool has_bits(uint64_t number, std::initializer_list<int> bits) {
  for (int bit : bits)
    if (!(number >> bit & 1)) return false;
  return true;
}

// The system lets a process use tiles only after it was asked, because they make the state of threads larger.
bool request_tiles() {
#if defined(__linux__)
  constexpr long REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;
  return !syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA);
#else
  return false;
#endif
}

Processor find_processor() {
  Processor found{};
  uint32_t a, b, c, d, features, none;
  if (!__get_cpuid(1, &a, &b, &features, &d) || !has_bits(features, {12, 27, 28})) return found;  // FMA, XGETBV, AVX
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));  // registers that the system saves
  const uint64_t saved = (uint64_t)high << 32 | low;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has_bits(saved, {1, 2})) return found;
  found.avx2 = has_bits(b, {5});
  found.avx512_vnni =
      found.avx2 && has_bits(saved, {5, 6, 7}) && has_bits(b, {16, 17, 30, 31}) && has_bits(c, {11});  // F, DQ, BW, VL
  uint32_t more = 0;
  if (a >= 1 && !__get_cpuid_count(7, 1, &more, &none, &none, &none)) more = 0;
  found.avx512_bf16 = found.avx512_vnni && has_bits(more, {5});
  found.amx = found.avx512_bf16 && has_bits(saved, {17, 18}) && has_bits(d, {22, 24, 25}) && request_tiles();
  return found;
}
#elif defined(__aarch64__) && defined(__linux__)
Processor find_processor() {
  constexpr unsigned long DOT_PRODUCTS = 1 << 20, MATRIX_PRODUCTS = 1 << 13;  // HWCAP_ASIMDDP, HWCAP2_I8MM
  Processor found{};
  found.dot_products = getauxval(AT_HWCAP) & DOT_PRODUCTS;
  found.matrix_products = found.dot_products && getauxval(AT_HWCAP2) & MATRIX_PRODUCTS;
  return found;
}
#elif defined(__aarch64__) && defined(__APPLE__)
Processor find_processor() {
  Processor found{};
  found.dot_products = true;  // all processors of Apple have them
  int32_t has_products = 0;
  size_t size = sizeof has_products;
  found.matrix_products = !sysctlbyname("hw.optional.arm.FEAT_I8MM", &has_products, &size, nullptr, 0) && has_products;
  return found;
}
#else
Processor find_processor() { return {}; }
#endif

}  // namespace

const Processor& processor() {
  static const Processor found = find_processor();
  return found;
}
