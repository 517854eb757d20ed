// Instruction sets that this processor has and the system lets programs use.
#pragma once

struct Processor {
  bool avx2, avx512_vnni, avx512_bf16, amx;  // of x86; each contains those before it
  bool dot_products, matrix_products;        // of 8-bit integers, of ARM; likewise
};

const Processor& processor();
