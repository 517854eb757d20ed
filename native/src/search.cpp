// Normalisers and the largest values of logits, and the state of searches after a token.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "matrix.h"
#include "native.h"
#include "threads.h"

namespace {

struct RankedValue {
  int64_t order, row, column;
  float value;
};

// Maps floats to integers with the same order; NaN is the largest, and both zeros are equal.
int64_t to_ordered_integer(float x) {
  if (std::isnan(x)) return std::numeric_limits<int32_t>::max();
  int32_t bits;
  x += 0.f;
  std::memcpy(&bits, &x, sizeof bits);
  return bits ^ ((bits >> 31) & 0x7FFFFFFF);
}

// The k largest values of the rows of one group, in descending order.
class TopValues {
 public:
  explicit TopValues(int64_t k) : k_(k) { found_.reserve(k + 1); }

  void read(const float* x, int64_t columns, int64_t row, float offset) {
    for (int64_t at = 0; at < columns; ++at) {
      if ((int64_t)found_.size() == k_) {
        at = kernels().exceeds(x, at, columns, offset, found_.back().value);
        if (at == columns) return;
      }
      insert({to_ordered_integer(x[at] + offset), row, at, x[at] + offset});
    }
  }

  const std::vector<RankedValue>& found() const { return found_; }

 private:
  void insert(const RankedValue& one) {
    if ((int64_t)found_.size() == k_) {
      if (one.order <= found_.back().order) return;
      found_.pop_back();
    }
    size_t at = found_.size();
    found_.push_back(one);
    for (; at > 0 && found_[at - 1].order < one.order; --at) found_[at] = found_[at - 1];
    found_[at] = one;
  }

  int64_t k_;
  std::vector<RankedValue> found_;
};

struct FinishedHypothesis {
  float score, total, value;
  int64_t place, last;
};

// Step of a beam search in one sentence; `heedful.generation.beam_decoding` does the same with tensors.
class Sentence {
 public:
  Sentence(int64_t number, int64_t width, int64_t kept, const Candidates& found, const Candidates& chosen)
      : number_(number), width_(width), kept_(kept), found_(found), chosen_(chosen) {}

  // Adds the finished ones of the first `width` continuations to the finished hypotheses, best score first.
  void finish(const Beams& before, const Beams& after, float divisor) const {
    const int64_t first = number_ * kept_, count = before.counts[number_];
    std::vector<FinishedHypothesis> all;
    for (int64_t i = first; i < first + kept_; ++i)
      all.push_back({before.ended[3 * i], before.ended[3 * i + 1], before.ended[3 * i + 2], before.places[i],
                     before.last[i]});
    for (int64_t rank = 0; rank < width_; ++rank) {
      const int64_t i = number_ * 2 * width_ + rank;
      if (found_.ends[i])
        all.push_back({found_.totals[i] / divisor, found_.totals[i], found_.values[i], count * width_ + found_.beams[i],
                       found_.ids[i]});
    }
    std::stable_sort(all.begin(), all.end(), [](const FinishedHypothesis& a, const FinishedHypothesis& b) {
      return to_ordered_integer(a.score) > to_ordered_integer(b.score);
    });
    for (int64_t i = 0; i < kept_; ++i) {
      const FinishedHypothesis& one = all[i];
      float* ended = after.ended + 3 * (first + i);
      ended[0] = one.score, ended[1] = one.total, ended[2] = one.value;
      after.places[first + i] = one.place, after.last[first + i] = one.last;
    }
  }

  // Selects the best unfinished continuations; if they are too few, finished ones with probability 0.
  void select_beams() const {
    int64_t at = number_ * width_;
    const int64_t first = number_ * 2 * width_, end = at + width_;
    for (bool ends : {false, true})
      for (int64_t i = first; i < first + 2 * width_ && at < end; ++i)
        if ((bool)found_.ends[i] == ends) {
          chosen_.totals[at] = ends ? -INFINITY : found_.totals[i];
          chosen_.values[at] = found_.values[i], chosen_.beams[at] = found_.beams[i], chosen_.ids[at] = found_.ids[i];
          chosen_.ends[at] = ends, chosen_.ranks[at] = found_.ranks[i];
          ++at;
        }
  }

 private:
  int64_t number_, width_, kept_;
  const Candidates &found_, &chosen_;
};

}  // namespace

void heedful_normalisers(const float* x, int64_t rows, int64_t columns, float* out, int32_t threads) {
  const Kernels& kernel = kernels();
  parallel(rows, threads, rows * columns * COST_PER_NUMBER, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) out[row] = kernel.normaliser(x + row * columns, columns);
  });
}

void heedful_top(const float* x, const float* offsets, int64_t groups, int64_t width, int64_t columns, int64_t k,
                 float* values, int64_t* members, int64_t* places, const float* logits, const float* normalisers,
                 float* log_probabilities, int32_t threads) {
  parallel(groups, threads, groups * width * columns * COST_PER_NUMBER, [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      TopValues best(k);
      for (int64_t member = 0; member < width; ++member) {
        const int64_t row = group * width + member;
        best.read(x + row * columns, columns, member, offsets ? offsets[row] : 0.f);
      }
      int64_t at = group * k;
      for (const RankedValue& each : best.found()) {
        values[at] = each.value, members[at] = each.row, places[at] = each.column;
        if (logits) {
          const int64_t row = group * width + each.row;
          log_probabilities[at] = logits[row * columns + each.column] - normalisers[row];
        }
        ++at;
      }
    }
  });
}

void heedful_append_tokens(const float* logits, const float* normalisers, int64_t rows, int64_t columns, int64_t copies,
                           const int64_t* picked, const uint8_t* ended, const int64_t* limits, const RowState* before,
                           const RowState* after, float* log_probabilities, int64_t* at, int64_t* result) {
  result[0] = 0, result[1] = -1;
  int64_t running = 0;  // rows of the group that are not done
  for (int64_t row = 0; row < rows; ++row) {
    const bool done = before->done[row];
    if (picked[row] < 0 && !done && result[1] < 0) result[1] = row;
    log_probabilities[row] = logits[row * columns + std::max<int64_t>(picked[row], 0)] - normalisers[row];
    at[row] = done ? -1 : before->positions[row];
    after->positions[row] = before->positions[row] + 1;
    after->lengths[row] = before->lengths[row] + 1;
    after->done[row] = done || ended[row] || after->lengths[row] >= limits[row];
    running += !after->done[row];
    if ((row + 1) % copies == 0) result[0] += !running, running = 0;
  }
}

void heedful_select(const Candidates* found, int64_t sentences, int64_t width, int64_t kept, const float* divisors,
                    const int64_t* forced, const int64_t* limits, const Beams* before, const Beams* after,
                    const Candidates* chosen, int64_t* result) {
  result[0] = result[1] = 0;
  for (int64_t s = 0; s < sentences; ++s) {
    const Sentence sentence(s, width, kept, *found, *chosen);
    const bool done = before->done[s];
    const int64_t length = forced[s] + before->counts[s] + 1, count = kept * s;
    sentence.select_beams();
    if (done) {  // the sentence does not change
      std::copy_n(before->ended + 3 * count, 3 * kept, after->ended + 3 * count);
      std::copy_n(before->places + count, kept, after->places + count);
      std::copy_n(before->last + count, kept, after->last + count);
      std::copy_n(before->live + s * width, width, after->live + s * width);
    } else {
      sentence.finish(*before, *after, divisors[length]);
      std::copy_n(chosen->totals + s * width, width, after->live + s * width);
    }
    const float largest = std::max(divisors[length + 1], divisors[limits[s]]);
    const bool beaten = std::min(after->live[s * width], 0.f) / largest <= after->ended[3 * (count + kept - 1)];
    after->counts[s] = before->counts[s] + !done;
    after->done[s] = done || length >= limits[s] || beaten;
    result[0] += after->done[s];
    for (int64_t beam = 0; beam < width && !after->done[s]; ++beam) result[1] |= chosen->beams[s * width + beam] != beam;
  }
}
