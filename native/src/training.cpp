// Operators of training: split the work of the kernels among threads.
#include <algorithm>
#include <vector>

#include "matrix.h"
#include "threads.h"

namespace {

constexpr int64_t BLOCK_ROWS = 128;  // rows whose gradients of gains and biases are summed together
constexpr int64_t FLOAT_COST = 4;    // int8 products that take as long as one of floats
constexpr int64_t EXPENSIVE = 8;     // an exponential takes as long as reading and writing so many numbers

// Returns memory of this thread for `count` floats.
float* get_scratch(int64_t count) {
  static thread_local std::vector<float> memory;
  if ((int64_t)memory.size() < count) memory.resize(count);
  return memory.data();
}

int64_t pad(int64_t n) { return (n + PADDING - 1) / PADDING * PADDING; }

// Calls part(begin, end, sums) for blocks of rows, then adds up the `width` sums of all blocks.
template <class Part>
void sum_over_blocks(int64_t rows, int64_t width, int32_t threads, float* out, Part&& part) {
  const int64_t blocks = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
  std::vector<float> sums(blocks * width);
  parallel(blocks, threads, rows * width * COST_PER_NUMBER, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      part(block * BLOCK_ROWS, std::min(rows, (block + 1) * BLOCK_ROWS), sums.data() + block * width);
  });
  std::fill(out, out + width, 0.f);
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t i = 0; i < width; ++i) out[i] += sums[block * width + i];
}

// Calls part(row, scratch) for each sequence of a batch of attention.
template <class Part>
void for_each_sequence(const AttentionBatch& batch, int32_t threads, Part&& part) {
  const int64_t widest = pad(std::max({batch.width, batch.value_width, batch.keys}));
  const int64_t tallest = std::max({batch.queries, batch.keys, batch.width, batch.value_width});
  const int64_t products = batch.queries * batch.keys * (batch.width + batch.value_width);
  parallel(batch.rows, threads, batch.rows * batch.heads * products * FLOAT_COST, [&](int64_t begin, int64_t end) {
    float* scratch = get_scratch(ATTENTION_MATRICES * batch.heads * tallest * widest);
    for (int64_t row = begin; row < end; ++row) part(row, scratch);
  });
}

}  // namespace

void heedful_attention(const AttentionBatch* batch, int32_t threads) {
  for_each_sequence(*batch, threads,
               [&](int64_t row, float* scratch) { kernels().training->attend(*batch, row, scratch); });
}

void heedful_attention_backward(const AttentionBatch* batch, const HeadVectors* gradients, int32_t threads) {
  for_each_sequence(*batch, threads, [&](int64_t row, float* scratch) {
    kernels().training->attend_backward(*batch, gradients, row, scratch);
  });
}

void heedful_dropout(const Dropout* dropout, const void* x, const void* branch, int64_t count, void* out,
                     int32_t bfloat16, int32_t threads) {
  parallel(count, threads, count * COST_PER_NUMBER, [&](int64_t begin, int64_t end) {
    kernels().training->drop(*dropout, x, branch, begin, end, out, bfloat16);
  });
}

void heedful_norm(const NormBatch* batch, void* out, int32_t threads) {
  parallel(batch->rows, threads, batch->rows * batch->width * COST_PER_NUMBER, [&](int64_t begin, int64_t end) {
    kernels().training->norm(*batch, begin, end, out);
  });
}

void heedful_norm_backward(const NormBatch* batch, const void* gradient, void* d_x, float* d_gain, float* d_bias,
                           int32_t threads) {
  const int64_t width = batch->width;
  std::vector<float> sums(2 * width);
  sum_over_blocks(batch->rows, 2 * width, threads, sums.data(), [&](int64_t begin, int64_t end, float* own) {
    kernels().training->norm_backward(*batch, gradient, begin, end, d_x, own, d_bias ? own + width : nullptr);
  });
  std::copy(sums.data(), sums.data() + width, d_gain);
  if (d_bias) std::copy(sums.data() + width, sums.data() + 2 * width, d_bias);
}

void heedful_bias_activation(void* x, int64_t rows, int64_t width, const float* bias, int32_t activation, void* out,
                             int32_t bfloat16, int32_t threads) {
  parallel(rows, threads, rows * width * COST_PER_NUMBER, [&](int64_t begin, int64_t end) {
    kernels().training->activate(x, begin, end, width, bias, activation, out, bfloat16);
  });
}

void heedful_bias_activation_backward(const void* gradient, const void* x, int64_t rows, int64_t width,
                                      int32_t activation, void* d_x, float* d_bias, int32_t bfloat16, int32_t threads) {
  const auto part = [&](int64_t begin, int64_t end, float* sums) {
    kernels().training->activate_backward(gradient, x, begin, end, width, activation, d_x, sums, bfloat16);
  };
  if (d_bias)
    sum_over_blocks(rows, width, threads, d_bias, part);
  else
    parallel(rows, threads, rows * width * COST_PER_NUMBER, [&](int64_t begin, int64_t end) { part(begin, end, nullptr); });
}

void heedful_cross_entropy(void* logits, int64_t rows, int64_t columns, const int64_t* labels, float confidence,
                           const float* weights, int32_t gradient, float* log_probabilities, float* chosen,
                           int32_t bfloat16, int32_t threads) {
  parallel(rows, threads, rows * columns * COST_PER_NUMBER * EXPENSIVE, [&](int64_t begin, int64_t end) {
    float* scratch = get_scratch(columns + PADDING);
    for (int64_t row = begin; row < end; ++row)
      kernels().training->cross_entropy((char*)logits + row * columns * (bfloat16 ? 2 : 4), columns, labels[row],
                                        confidence, weights ? weights[row] : 1.f, gradient, log_probabilities + row,
                                        chosen + row, scratch, bfloat16);
  });
}
