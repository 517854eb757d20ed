// Several steps of greedy search in one call.
#include <algorithm>
#include <cmath>
#include <vector>

#include "matrix.h"
#include "native.h"

namespace {

// Returns the index of the largest number, the first of equal ones; -1 if all are minus infinity or some are NaN.
int64_t find_largest(const Kernels& kernel, const float* x, int64_t n) {
  int64_t found = -1;
  float most = -INFINITY;
  for (int64_t i = kernel.exceeds(x, 0, n, 0.f, most); i < n; i = kernel.exceeds(x, i + 1, n, 0.f, most)) {
    if (std::isnan(x[i])) return -1;
    found = i, most = x[i];
  }
  return found;
}

}  // namespace

Status heedful_write(const Stack* stack, const Linear* output, const Chunk* chunk, const Cache* cache, const Memory* memories,
                     const Writing* how, const Growing* before, const Growing* after, int64_t* ids,
                     float* log_probabilities, int64_t* at, int64_t* result, int32_t threads) {
  const int64_t rows = chunk->rows, words = output->weight->n;
  const Kernels& kernel = kernels();
  static thread_local Vectors vectors;
  static thread_local std::vector<float> hidden, logits, totals;
  static thread_local std::vector<uint8_t> ended;
  static thread_local std::vector<int32_t> tables[2];
  hidden.resize(rows * stack->width), logits.resize(rows * words), totals.resize(rows), ended.resize(rows);
  for (std::vector<int32_t>& table : tables) table.resize(rows * (cache->read + how->steps) * 2);
  std::vector<int64_t> read(chunk->ids, chunk->ids + rows), positions(chunk->positions, chunk->positions + rows);
  std::copy_n(before->positions, rows, after->positions);
  std::copy_n(before->lengths, rows, after->lengths);
  std::copy_n(before->done, rows, after->done);
  Chunk next = *chunk;
  Cache now = *cache;
  next.ids = read.data(), next.positions = positions.data();
  int64_t step = 0, state[2] = {0, -1};
  for (; step < how->steps && state[0] < rows && state[1] < 0; ++step) {
    now.present = tables[step % 2].data();
    const Status status = heedful_forward(stack, &next, &now, memories, hidden.data(), threads);
    if (status != DONE) return status;
    now.past = now.present, ++now.read;
    vectors.set(hidden.data(), rows, stack->width, threads);
    vectors.multiply(*output, logits.data());
    heedful_normalisers(logits.data(), rows, words, totals.data(), threads);
    int64_t* picked = ids + step * rows;
    for (int64_t row = 0; row < rows; ++row) {
      float* own = logits.data() + row * words;
      for (int64_t i = 0; i < how->forbidden_count; ++i) own[how->forbidden[i]] = -INFINITY;
      picked[row] = after->done[row] ? 0 : find_largest(kernel, own, words);
      ended[row] = picked[row] == how->eos;
    }
    heedful_grow(logits.data(), totals.data(), rows, words, 1, picked, ended.data(), how->limits, after, after,
                 log_probabilities + step * rows, at + step * rows, state);
    for (int64_t row = 0; row < rows; ++row) {
      positions[row] = after->done[row] ? -1 : positions[row] + 1;
      read[row] = std::max<int64_t>(picked[row], 0);
    }
  }
  std::copy_n(now.past, rows * now.read * 2, cache->present);
  result[0] = step, result[1] = state[1];
  return DONE;
}
