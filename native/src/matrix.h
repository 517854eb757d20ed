// Packed matrices, and vectors that are quantized once for several matrices.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.h"
#include "memory.h"
#include "native.h"

const Kernels& kernels();  // the current kernels

struct Matrix {
  const Kernels& kernel;
  int64_t n, k, panels;
  Weights<int8_t> bytes;     // [panels, quads, columns, 4]; only one of the three is not empty
  Weights<uint16_t> halves;  // [panels, pairs, columns, 2]: bf16
  Weights<float> floats;     // [panels, k, columns]
  std::vector<float> scale;  // scale of each row, and 0 after the last one

  int64_t quads() const { return padded() / 4; }
  int64_t pairs() const { return padded() / 2; }

 private:
  int64_t padded() const { return (k + kernel.depth - 1) / kernel.depth * kernel.depth; }
};

// Vectors [count, k] to multiply with one or several matrices.
class Vectors {
 public:
  void set(const float* x, int64_t count, int64_t k, int32_t threads);
  // out[i] = x[i] W' + b
  void multiply(const Linear& linear, float* out);

 private:
  void quantize(const Kernels& kernel);
  void round_halves(const Kernels& kernel);

  const float* x_ = nullptr;
  int64_t count_ = 0, k_ = 0, stride_ = 0;
  int32_t threads_ = 1;
  bool quantized_ = false, rounded_ = false;
  std::vector<int8_t> whole_;
  std::vector<uint16_t> halves_;
  std::vector<float> steps_;
  std::vector<int32_t> sums_;
};
