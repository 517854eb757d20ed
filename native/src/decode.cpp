// Several steps of greedy search or of beam search in one call.
#include <algorithm>
#include <cmath>
#include <utility>
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

// The token ids of all rows so far, and the rules against repetition for the logits of the next token.
class TokenHistories {
 public:
  TokenHistories(const Repetition* rules, int64_t rows, int64_t words)
      : rules_(rules), vocabulary_(words), texts_(rules ? rows : 0) {
    for (size_t row = 0; row < texts_.size(); ++row) {
      const int64_t* text = rules->texts + row * rules->length;
      texts_[row].assign(text, text + rules->length);
    }
  }

  bool has_penalty() const { return rules_ && rules_->penalty != 1.f; }

  // Changes the logits of tokens that occurred; `restore` must follow.
  void penalize(float* logits) {
    originals_.clear();
    for (size_t row = 0; row < texts_.size(); ++row)
      for (int64_t token : texts_[row])
        if (is_restricted(token)) {
          float* place = logits + row * vocabulary_ + token;
          originals_.emplace_back(place, *place);
        }
    for (const auto& [place, value] : originals_) *place = value > 0 ? value / rules_->penalty : value * rules_->penalty;
  }

  // Sets the penalised logits back.
  void restore() {
    for (const auto& [place, value] : originals_) *place = value;
  }

  // Forbids each token that would complete a repeated n-gram.
  void forbid(float* logits) const {
    for (size_t row = 0; row < texts_.size(); ++row) {
      const std::vector<int64_t>& text = texts_[row];
      const int64_t context = rules_->ngram_size - 1, starts = (int64_t)text.size() - context;
      for (int64_t i = 0; context >= 0 && i < starts; ++i)
        if (std::equal(text.end() - context, text.end(), text.begin() + i) && is_restricted(text[i + context]) &&
            *std::min_element(text.begin() + i, text.begin() + i + rules_->ngram_size) >= 0)
          logits[row * vocabulary_ + text[i + context]] = -INFINITY;
    }
  }

  // Appends ids[row] to each row, after it took the text of row parents[row]; null: its own.
  void append(const int64_t* ids, const int64_t* parents) {
    const std::vector<std::vector<int64_t>> before = texts_;
    for (size_t row = 0; row < texts_.size(); ++row) {
      texts_[row] = before[parents ? parents[row] : row];
      texts_[row].push_back(ids[row]);
    }
  }

  // Writes the texts to `rules->after`.
  void write_output() const {
    for (size_t row = 0; row < texts_.size(); ++row)
      std::copy(texts_[row].begin(), texts_[row].end(), rules_->after + row * texts_[row].size());
  }

 private:
  bool is_restricted(int64_t token) const {
    const int64_t* end = rules_->exempt + rules_->exempt_count;
    return token >= 0 && token < vocabulary_ && std::find(rules_->exempt, end, token) == end;
  }

  const Repetition* rules_;
  const int64_t vocabulary_;
  std::vector<std::vector<int64_t>> texts_;
  std::vector<std::pair<float*, float>> originals_;
};

// Buffers of one call, kept to allocate them only once.
struct Buffers {
  Vectors vectors;
  std::vector<float> hidden, logits, normalisers, ranking;
  std::vector<int32_t> tables[2];
  std::vector<int64_t> live;  // rows that have a token
};

// Reads one token of each row in each step, and computes the logits of the next one.
class StepReader {
 public:
  StepReader(const Stack* stack, const Linear* output, const Chunk* chunk, const Cache* cache, const Memory* memories,
             const DecodingOptions& options, int32_t threads)
      : ids(chunk->ids, chunk->ids + chunk->rows),
        positions(chunk->positions, chunk->positions + chunk->rows),
        rows(chunk->rows),
        words(output->weight->n),
        texts(options.repetition, rows, words),
        stack_(stack),
        output_(output),
        memories_(memories),
        options_(options),
        threads_(threads),
        chunk_(*chunk),
        cache_(*cache) {
    b_.hidden.resize(rows * stack->width), b_.logits.resize(rows * words);
    b_.normalisers.resize(rows), b_.ranking.resize(rows);
    for (std::vector<int32_t>& table : b_.tables) table.resize(rows * (cache->read + options.steps) * 2);
    chunk_.ids = ids.data(), chunk_.positions = positions.data();
  }

  // Reads `ids` at `positions`, and computes the logits of the next tokens. Row i continues row parents[i] of the step
  // before; null: row i.
  Status read(const int64_t* parents) {
    cache_.parents = parents;
    cache_.present = b_.tables[steps % 2].data();
    const Status status = heedful_forward(stack_, &chunk_, &cache_, memories_, b_.hidden.data(), threads_);
    if (status != DONE) return status;
    cache_.past = cache_.present, ++cache_.read, ++steps;
    compute_logits();
    heedful_normalisers(b_.logits.data(), rows, words, b_.normalisers.data(), threads_);
    if (texts.has_penalty()) {
      texts.penalize(b_.logits.data());
      heedful_normalisers(b_.logits.data(), rows, words, b_.ranking.data(), threads_);
    }
    texts.forbid(b_.logits.data());
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < options_.forbidden_count; ++i) b_.logits[row * words + options_.forbidden[i]] = -INFINITY;
    return DONE;
  }

  // Copies the table of the keys after the last step.
  void copy_table(int32_t* present) const { std::copy_n(cache_.past, rows * cache_.read * 2, present); }

  const float* logits() const { return b_.logits.data(); }
  const float* normalisers() const { return b_.normalisers.data(); }
  // Those of the logits with penalties.
  const float* ranking_normalisers() const { return texts.has_penalty() ? b_.ranking.data() : b_.normalisers.data(); }

  std::vector<int64_t> ids, positions;  // next tokens to read; position -1: none
  const int64_t rows, words;
  TokenHistories texts;
  int64_t steps = 0;  // number of steps so far

 private:
  // Computes the logits of the rows that have a token; those of the others become 0.
  void compute_logits() {
    const int64_t width = stack_->width;
    float *hidden = b_.hidden.data(), *logits = b_.logits.data();
    b_.live.clear();
    for (int64_t row = 0; row < rows; ++row)
      if (positions[row] >= 0) b_.live.push_back(row);
    const int64_t count = (int64_t)b_.live.size();
    for (int64_t i = 0; i < count; ++i)
      if (b_.live[i] > i) std::copy_n(hidden + b_.live[i] * width, width, hidden + i * width);
    b_.vectors.set(hidden, count, width, threads_);
    b_.vectors.multiply(*output_, logits);
    for (int64_t i = count - 1; i >= 0 && b_.live[i] > i; --i)
      std::copy_n(logits + i * words, words, logits + b_.live[i] * words);
    for (int64_t row = 0; row < rows && count < rows; ++row)
      if (positions[row] < 0) std::fill_n(logits + row * words, words, 0.f);
  }

  static Buffers& buffers() {
    static thread_local Buffers kept;
    return kept;
  }

  Buffers& b_ = buffers();
  const Stack* stack_;
  const Linear* output_;
  const Memory* memories_;
  const DecodingOptions& options_;
  const int32_t threads_;
  Chunk chunk_;
  Cache cache_;
};

}  // namespace

Status heedful_decode_greedy(const Stack* stack, const Linear* output, const Chunk* chunk, const Cache* cache,
                             const Memory* memories, const DecodingOptions* options, const RowState* before,
                             const RowState* after, int64_t* ids, float* log_probabilities, int64_t* at, int64_t* result,
                             int32_t threads) {
  StepReader reader(stack, output, chunk, cache, memories, *options, threads);
  const int64_t rows = reader.rows, words = reader.words;
  std::vector<uint8_t> ended(rows);
  std::copy_n(before->positions, rows, after->positions);
  std::copy_n(before->lengths, rows, after->lengths);
  std::copy_n(before->done, rows, after->done);
  int64_t state[2] = {0, -1};
  while (reader.steps < options->steps && state[0] < rows && state[1] < 0) {
    const int64_t step = reader.steps * rows;
    const Status status = reader.read(nullptr);
    if (status != DONE) return status;
    int64_t* picked = ids + step;
    for (int64_t row = 0; row < rows; ++row) {
      picked[row] = after->done[row] ? 0 : find_largest(kernels(), reader.logits() + row * words, words);
      ended[row] = picked[row] == options->eos;
    }
    reader.texts.restore();
    reader.texts.append(picked, nullptr);
    heedful_append_tokens(reader.logits(), reader.normalisers(), rows, words, 1, picked, ended.data(), options->limits,
                          after, after, log_probabilities + step, at + step, state);
    for (int64_t row = 0; row < rows; ++row) {
      reader.positions[row] = after->done[row] ? -1 : reader.positions[row] + 1;
      reader.ids[row] = std::max<int64_t>(picked[row], 0);
    }
  }
  reader.copy_table(cache->present);
  reader.texts.write_output();
  result[0] = reader.steps, result[1] = state[1];
  return DONE;
}

Status heedful_decode_beams(const Stack* stack, const Linear* output, const Chunk* chunk, const Cache* cache,
                            const Memory* memories, const DecodingOptions* options, int64_t width, int64_t kept,
                            const float* divisors, const int64_t* forced, const Beams* before, const Beams* after,
                            int64_t* ids, float* log_probabilities, int64_t* beams, int64_t* result, int32_t threads) {
  StepReader reader(stack, output, chunk, cache, memories, *options, threads);
  const int64_t rows = reader.rows, sentences = rows / width, count = 2 * width;
  std::vector<float> offsets(rows), totals(sentences * count), values(sentences * count), chosen_totals(rows);
  std::vector<int64_t> members(sentences * count), words(sentences * count), ranks(sentences * count), chosen_ranks(rows);
  std::vector<uint8_t> ends(sentences * count), chosen_ends(rows);
  std::vector<int64_t> parents(rows);
  const Candidates found{totals.data(), values.data(), members.data(), words.data(), ends.data(), ranks.data()};
  std::copy_n(before->counts, sentences, after->counts);
  std::copy_n(before->live, rows, after->live);
  std::copy_n(before->done, sentences, after->done);
  std::copy_n(before->ended, sentences * kept * 3, after->ended);
  std::copy_n(before->places, sentences * kept, after->places);
  std::copy_n(before->last, sentences * kept, after->last);
  int64_t state[2] = {0, 0};
  while (reader.steps < options->steps && state[0] < sentences) {
    const int64_t step = reader.steps * rows;
    const Status status = reader.read(state[1] ? parents.data() : nullptr);
    if (status != DONE) return status;
    for (int64_t row = 0; row < rows; ++row) offsets[row] = after->live[row] - reader.ranking_normalisers()[row];
    heedful_top(reader.logits(), offsets.data(), sentences, width, reader.words, count, totals.data(), members.data(),
                words.data(), nullptr, nullptr, nullptr, threads);
    reader.texts.restore();
    for (int64_t i = 0; i < sentences * count; ++i) {
      const int64_t row = i / count * width + members[i];
      values[i] = reader.logits()[row * reader.words + words[i]] - reader.normalisers()[row];
      ends[i] = words[i] == options->eos;
    }
    const Candidates chosen{chosen_totals.data(), log_probabilities + step, beams + step,
                            ids + step,           chosen_ends.data(),       chosen_ranks.data()};
    heedful_select(&found, sentences, width, kept, divisors, forced, options->limits, after, after, &chosen, state);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t sentence = row / width;
      parents[row] = sentence * width + beams[step + row];
      reader.positions[row] = after->done[sentence] ? -1 : reader.positions[row] + 1;
      reader.ids[row] = ids[step + row];
    }
    reader.texts.append(ids + step, parents.data());
  }
  reader.copy_table(cache->present);
  reader.texts.write_output();
  result[0] = reader.steps, result[1] = state[0], result[2] = state[1];
  return DONE;
}
