// Packed matrices, and vectors that are quantized once for several matrices.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.h"
#include "native.h"

const Kernels& kernels();  // the current kernels

struct Matrix {
  const Kernels& kernel;
  int64_t n, k, panels;
  std::vector<int8_t> bytes;   // [panels, quads, columns, 4]; empty if the weights are floats
  std::vector<float> floats;   // [panels, k, columns]
  std::vector<float> scale;    // scale of each row, and 0 after the last one

  int64_t quads() const { return (k + 3) / 4; }
};

// Vectors [count, k] to multiply with one or several matrices.
class Vectors {
 public:
  void set(const float* x, int64_t count, int64_t k, int32_t threads);
  // out[i] = x[i] W' + b
  void multiply(const Linear& linear, float* out);

 private:
  void quantize(const Kernels& kernel);

  const float* x_ = nullptr;
  int64_t count_ = 0, k_ = 0, stride_ = 0;
  int32_t threads_ = 1;
  bool quantized_ = false;
  std::vector<int8_t> whole_;
  std::vector<float> steps_;
  std::vector<int32_t> sums_;
};
