// Kernels for one vector, or for a few, in one instruction set.
#pragma once

#include <math.h>
#include <string.h>

#include <cstdint>
#include <utility>

#include "native.h"  // activations

// Operators of training, of floats or bf16 numbers; see `native.h`. A pointer to numbers is void*.
struct TrainingKernels {
  // One sequence. `scratch` has memory for ATTENTION_MATRICES of each head, padded to PADDING columns.
  void (*attend)(const AttentionBatch& batch, int64_t row, float* scratch);
  void (*attend_backward)(const AttentionBatch& batch, const HeadVectors* gradients, int64_t row, float* scratch);
  // Numbers from `begin` to `end`.
  void (*drop)(const Dropout& dropout, const void* x, const void* branch, int64_t begin, int64_t end, void* out,
               bool bfloat16);
  // A few rows; the gradients of gain and bias are added.
  void (*norm)(const NormBatch& batch, int64_t begin, int64_t end, void* out);
  void (*norm_backward)(const NormBatch& batch, const void* gradient, int64_t begin, int64_t end, void* d_x,
                        float* d_gain, float* d_bias);
  void (*activate)(void* x, int64_t begin, int64_t end, int64_t width, const float* bias, int32_t activation, void* out,
                   bool bfloat16);
  void (*activate_backward)(const void* gradient, const void* x, int64_t begin, int64_t end, int64_t width,
                            int32_t activation, void* d_x, float* d_bias, bool bfloat16);
  // One row; `scratch` has `columns` floats and PADDING more.
  void (*cross_entropy)(void* logits, int64_t columns, int64_t label, float confidence, float weight, bool gradient,
                        float* log_probability, float* logit, float* scratch, bool bfloat16);
};

struct Kernels {
  const char* name;
  bool (*here)();      // returns whether this processor has the instructions
  int64_t columns;     // columns of a panel, computed side by side
  bool offset;         // int8 weights are stored as their value + 128
  int64_t depth;       // rows of int8 and bf16 matrices are filled with zeros to a multiple, at most PADDING

  // Products of `count` quantized vectors with one panel of int8 weights, [quads, columns, 4]; a quad has 4 entries.
  // out[i * stride + j] = (sum - 128 sums[i] if offset) * steps[i] * scale[j] + bias[j]
  void (*bytes)(const int8_t* panel, int64_t quads, const int8_t* whole, int64_t whole_stride, const float* steps,
                const int32_t* sums, int64_t count, const float* scale, const float* bias, float* out, int64_t stride);
  // The same with bf16 numbers and a panel [pairs, columns, 2]; the stride counts numbers.
  void (*halves)(const uint16_t* panel, int64_t pairs, const uint16_t* x, int64_t x_stride, int64_t count,
                 const float* bias, float* out, int64_t stride);
  // The same with floats and a panel [k, columns].
  void (*floats)(const float* panel, int64_t k, const float* x, int64_t x_stride, int64_t count, const float* bias,
                 float* out, int64_t stride);
  // Quantize: scale the largest absolute entry to 127 and round. Returns the size of a step, and the sum in `sum`.
  float (*round)(const float* x, int64_t n, int8_t* whole, int32_t* sum);
  // Round to bf16, to the nearest, half to even. Zeros follow, up to a multiple of PADDING.
  void (*round_halves)(const float* x, int64_t n, uint16_t* out);
  // LayerNorm, or RMSNorm if not `centred`; `bias` may be null.
  void (*norm)(const float* x, int64_t n, const float* gain, const float* bias, float epsilon, bool centred, float* out);
  void (*add)(float* x, const float* y, int64_t n);
  void (*multiply)(float* x, const float* y, int64_t n);
  void (*activate)(float* x, int64_t n, int32_t activation);
  // softmax(q k / sqrt(size)) v for each head of `shared` heads of keys, which `group` heads of queries use: keys are at
  // base + offset, values shared * size after them.
  void (*attend)(const float* query, const float* base, const int64_t* offsets, int64_t count, int64_t shared,
                 int64_t group, int64_t size, float* weights, float* out);
  // log(sum(exp(x))).
  float (*normaliser)(const float* x, int64_t n);
  // Returns the first index from `from` on where x + offset is not at most `least`; n if there is none.
  int64_t (*exceeds)(const float* x, int64_t from, int64_t n, float offset, float least);
  const TrainingKernels* training;
};

constexpr int64_t PADDING = 64;  // strides of rounded vectors are a multiple; `weights` has this many extra entries
constexpr int64_t ATTENTION_MATRICES = 9;  // operands, weights and gradients of a backward pass
constexpr int64_t ROW_PADDING = 16;  // rounded vectors are followed by memory for others, up to a multiple

extern const Kernels PLAIN, AVX2, AVX512, AVX512_BF16, AMX, NEON, NEON_I8MM;
