// Forward pass of a chunk of tokens: one step of all beams, a prompt, or a text to encode.
#include <algorithm>
#include <cstring>
#include <vector>

#include "matrix.h"
#include "native.h"
#include "threads.h"

namespace {

struct Token {
  int64_t row, column, position;
};

// The keys that a query sees: `count` offsets from index `begin` on.
struct KeyRange {
  int64_t begin, count;
};

struct Keys {
  std::vector<int64_t> offsets;
  std::vector<KeyRange> seen;  // keys of each token
  int64_t most = 0;        // maximal number of keys of a token

  void clear() { offsets.clear(), seen.clear(), most = 0; }
};

// Buffers of one call, kept to allocate them only once.
struct Scratch {
  std::vector<Token> tokens;
  std::vector<Keys> keys;  // of self-attention, then of each memory
  std::vector<float> x, h, query, key_value, context, result, inner, gate;
  Vectors vectors;
};

float* grow_buffer(std::vector<float>& numbers, int64_t count) {
  if ((int64_t)numbers.size() < count) numbers.resize(count);
  return numbers.data();
}

class Forward {
 public:
  Forward(const Stack& stack, const Chunk& chunk, const Cache& cache, const Memory* memories, int32_t threads)
      : s_(stack),
        chunk_(chunk),
        cache_(cache),
        memories_(memories),
        threads_(threads),
        kernel_(kernels()),
        query_width_(stack.heads * stack.head_width),
        key_width_(stack.key_value_heads * stack.head_width) {}

  Status run(float* hidden) {
    Status status = find_tokens();
    if (status != DONE) return status;
    write_table();
    find_own_keys();
    for (int64_t i = 0; i < s_.memories; ++i) find_memory_keys(memories_[i], keys(1 + i));
    embed();
    for (int64_t layer = 0; layer < s_.depth; ++layer) run_layer(layer);
    finish(hidden);
    return DONE;
  }

 private:
  static Scratch& scratch() {
    static thread_local Scratch kept;
    return kept;
  }

  Keys& keys(int64_t number) {
    std::vector<Keys>& all = w_.keys;
    if ((int64_t)all.size() <= number) all.resize(number + 1);
    return all[number];
  }

  template <class Each>
  void each_token(int64_t numbers, Each&& each) {
    parallel(count_, threads_, count_ * numbers * COST_PER_NUMBER, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) each(i);
    });
  }

  Status find_tokens() {
    w_.tokens.clear();
    const bool counted = s_.places || s_.cosines;
    for (int64_t row = 0; row < chunk_.rows; ++row)
      for (int64_t column = 0; column < chunk_.length; ++column) {
        const int64_t at = row * chunk_.length + column, position = chunk_.positions[at];
        if (position < 0) continue;
        if (counted && position >= s_.positions) return POSITION_TOO_LARGE;
        if (chunk_.ids && (chunk_.ids[at] < 0 || chunk_.ids[at] >= s_.words.entries)) return NO_SUCH_ENTRY;
        if (chunk_.segments && (s_.segments.bytes || s_.segments.floats) &&
            (chunk_.segments[at] < 0 || chunk_.segments[at] >= s_.segments.entries))
          return NO_SUCH_ENTRY;
        w_.tokens.push_back({row, column, position});
      }
    count_ = (int64_t)w_.tokens.size();
    return DONE;
  }

  // Each key of the chunk is in the cache's row with the number of its token's row, in a new column.
  void write_table() {
    const int64_t read = cache_.read, wide = read + chunk_.length;
    for (int64_t row = 0; row < chunk_.rows; ++row) {
      int32_t* present = cache_.present + row * wide * 2;
      const int64_t parent = cache_.parents ? cache_.parents[row] : row;
      if (read) std::memcpy(present, cache_.past + parent * read * 2, read * 2 * sizeof *present);
      for (int64_t column = 0; column < chunk_.length; ++column) {
        const int64_t position = chunk_.positions[row * chunk_.length + column];
        present[(read + column) * 2] = position < 0 ? -1 : (int32_t)row;
        present[(read + column) * 2 + 1] = (int32_t)position;
      }
    }
  }

  // Finds the keys of its row that each token sees; they are listed once for a row if positions are sorted.
  void find_own_keys() {
    Keys& found = keys(0);
    found.clear();
    const int64_t wide = cache_.read + chunk_.length;
    std::vector<int64_t>& places = places_;
    for (int64_t i = 0, row = -1, begin = 0; i < count_; ++i) {
      const Token& token = w_.tokens[i];
      const int32_t* present = cache_.present + token.row * wide * 2;
      if (token.row != row) {
        row = token.row, begin = (int64_t)found.offsets.size();
        places.clear();
        for (int64_t column = 0; column < wide; ++column)
          if (present[column * 2] >= 0) {
            found.offsets.push_back((present[column * 2] * cache_.columns + column) * 2 * key_width_);
            places.push_back(present[column * 2 + 1]);
          }
        sorted_ = std::is_sorted(places.begin(), places.end());
      }
      found.seen.push_back(select_visible(found.offsets, begin, token.position));
      found.most = std::max(found.most, found.seen.back().count);
    }
  }

  KeyRange select_visible(std::vector<int64_t>& offsets, int64_t begin, int64_t position) {
    const int64_t least = s_.before < 0 ? INT64_MIN : position - s_.before;
    const int64_t most = s_.after < 0 ? INT64_MAX : position + s_.after;
    if (sorted_) {
      auto first = std::lower_bound(places_.begin(), places_.end(), least);
      auto last = std::upper_bound(first, places_.end(), most);
      return {begin + (first - places_.begin()), last - first};
    }
    const int64_t own = (int64_t)offsets.size();
    for (size_t i = 0; i < places_.size(); ++i)
      if (places_[i] >= least && places_[i] <= most) offsets.push_back(offsets[begin + (int64_t)i]);
    return {own, (int64_t)offsets.size() - own};
  }

  void find_memory_keys(const Memory& memory, Keys& found) {
    found.clear();
    std::vector<KeyRange> rows;
    for (int64_t row = 0; row < memory.rows; ++row) {
      const int64_t begin = (int64_t)found.offsets.size();
      for (int64_t slot = 0; slot < memory.slots; ++slot)
        if (memory.positions[row * memory.slots + slot] >= 0)
          found.offsets.push_back((row * memory.slots + slot) * 2 * key_width_);
      rows.push_back({begin, (int64_t)found.offsets.size() - begin});
    }
    for (const Token& token : w_.tokens) {
      found.seen.push_back(rows[memory.of[token.row]]);
      found.most = std::max(found.most, found.seen.back().count);
    }
  }

  void copy_embedding(const Table& table, int64_t number, float scale, float* out) const {
    const int64_t at = number * s_.width;
    if (table.bytes) {
      scale *= table.scale[number];
      for (int64_t i = 0; i < s_.width; ++i) out[i] = table.bytes[at + i] * scale;
    } else {
      for (int64_t i = 0; i < s_.width; ++i) out[i] = table.floats[at + i] * scale;
    }
  }

  void embed() {
    const int64_t width = s_.width;
    float* x = grow_buffer(w_.x, count_ * width);
    float* part = grow_buffer(w_.h, count_ * width);
    each_token(s_.width, [&](int64_t i) {
      const Token& token = w_.tokens[i];
      const int64_t at = token.row * chunk_.length + token.column;
      float* out = x + i * width;
      if (chunk_.vectors)
        for (int64_t j = 0; j < width; ++j) out[j] = chunk_.vectors[at * width + j] * s_.scale;
      else
        copy_embedding(s_.words, chunk_.ids[at], s_.scale, out);
      if (s_.places) kernel_.add(out, s_.places + token.position * width, width);
      if (s_.segments.bytes || s_.segments.floats) {
        copy_embedding(s_.segments, chunk_.segments ? chunk_.segments[at] : 0, 1.f, part + i * width);
        kernel_.add(out, part + i * width, width);
      }
      normalise(s_.embedding_norm, width, out, out);
    });
  }

  void normalise(const Norm& norm, int64_t width, const float* x, float* out) const {
    if (norm.gain)
      kernel_.norm(x, width, norm.gain, norm.bias, norm.epsilon, norm.centred, out);
    else if (out != x)
      std::copy(x, x + width, out);
  }

  // Normalises the vectors of all heads.
  void normalise_heads(const Norm& norm, int64_t heads, float* x) const {
    if (!norm.gain) return;
    for (int64_t head = 0; head < heads; ++head, x += s_.head_width) normalise(norm, s_.head_width, x, x);
  }

  void run_layer(int64_t number) {
    const Layer& layer = s_.layers[number];
    float* own = cache_.numbers + number * cache_.layer;
    float* h = prepare_input(layer.self.norm);
    w_.vectors.set(h, count_, s_.width, threads_);
    float* query = grow_buffer(w_.query, count_ * query_width_);
    float* key_value = grow_buffer(w_.key_value, count_ * 2 * key_width_);
    w_.vectors.multiply(layer.self.query, query);
    w_.vectors.multiply(layer.self.key_value, key_value);
    each_token(query_width_, [&](int64_t i) { store_key_value(i, layer.self, query, key_value, own); });
    add_projection(layer.self, attend(query, own, keys(0)));
    for (int64_t i = 0; i < s_.memories; ++i) {
      const Attention& across = layer.across[i];
      const Memory& memory = memories_[i];
      w_.vectors.set(prepare_input(across.norm), count_, s_.width, threads_);
      w_.vectors.multiply(across.query, query);
      if (across.query_norm.gain)
        each_token(query_width_, [&](int64_t j) { normalise_heads(across.query_norm, s_.heads, query + j * query_width_); });
      const float* numbers = memory.numbers + number * memory.rows * memory.slots * 2 * key_width_;
      add_projection(across, attend(query, numbers, keys(1 + i)));
    }
    feed_forward(layer);
  }

  // Returns the input of a sublayer.
  float* prepare_input(const Norm& norm) {
    if (!s_.pre_norm) return w_.x.data();
    float* h = grow_buffer(w_.h, count_ * s_.width);
    each_token(s_.width, [&](int64_t i) { normalise(norm, s_.width, w_.x.data() + i * s_.width, h + i * s_.width); });
    return h;
  }

  // Adds the output of a sublayer to its input.
  void add(const Norm& norm, const float* result) {
    each_token(s_.width, [&](int64_t i) {
      float* x = w_.x.data() + i * s_.width;
      kernel_.add(x, result + i * s_.width, s_.width);
      if (!s_.pre_norm) normalise(norm, s_.width, x, x);
    });
  }

  void add_projection(const Attention& attention, const float* context) {
    if (!attention.output.weight) return add(attention.norm, context);
    float* result = grow_buffer(w_.result, count_ * s_.width);
    w_.vectors.set(context, count_, query_width_, threads_);
    w_.vectors.multiply(attention.output, result);
    add(attention.norm, result);
  }

  void feed_forward(const Layer& layer) {
    const int64_t wide = layer.inner.weight->n;
    float* inner = grow_buffer(w_.inner, count_ * wide);
    float* result = grow_buffer(w_.result, count_ * s_.width);
    w_.vectors.set(prepare_input(layer.norm), count_, s_.width, threads_);
    w_.vectors.multiply(layer.inner, inner);
    float* gate = nullptr;
    if (layer.gate.weight) {
      gate = grow_buffer(w_.gate, count_ * wide);
      w_.vectors.multiply(layer.gate, gate);
    }
    each_token(wide, [&](int64_t i) {
      kernel_.activate(inner + i * wide, wide, s_.activation);
      if (gate) kernel_.multiply(inner + i * wide, gate + i * wide, wide);
    });
    w_.vectors.set(inner, count_, wide, threads_);
    w_.vectors.multiply(layer.outer, result);
    add(layer.norm, result);
  }

  // Stores keys and values in the cache; normalises and rotates queries and keys (Su et al. 2021, eq. 34).
  void store_key_value(int64_t i, const Attention& attention, float* queries, const float* key_value, float* own) {
    const Token& token = w_.tokens[i];
    float *query = queries + i * query_width_,
          *key = own + (token.row * cache_.columns + cache_.read + token.column) * 2 * key_width_;
    std::memcpy(key, key_value + i * 2 * key_width_, 2 * key_width_ * sizeof *key);
    normalise_heads(attention.query_norm, s_.heads, query);
    normalise_heads(attention.key_norm, s_.key_value_heads, key);
    if (!s_.cosines) return;
    rotate(query, s_.heads, token.position);
    rotate(key, s_.key_value_heads, token.position);
  }

  void rotate(float* x, int64_t heads, int64_t position) const {
    const int64_t pairs = s_.turned;
    const float *cosines = s_.cosines + position * pairs, *sines = s_.sines + position * pairs;
    for (int64_t head = 0; head < heads; ++head, x += s_.head_width)
      for (int64_t i = 0; i < pairs; ++i) {
        const float even = x[2 * i], odd = x[2 * i + 1];
        x[2 * i] = even * cosines[i] - odd * sines[i];
        x[2 * i + 1] = even * sines[i] + odd * cosines[i];
      }
  }

  const float* attend(const float* query, const float* base, const Keys& keys) {
    float* context = grow_buffer(w_.context, count_ * query_width_);
    parallel(count_, threads_, count_ * query_width_ * keys.most * COST_PER_NUMBER,
             [&](int64_t begin, int64_t end) {
               static thread_local std::vector<float> weights;
               grow_buffer(weights, keys.most + PADDING);
               for (int64_t i = begin; i < end; ++i)
                 kernel_.attend(query + i * query_width_, base, keys.offsets.data() + keys.seen[i].begin,
                                keys.seen[i].count, s_.key_value_heads, s_.heads / s_.key_value_heads, s_.head_width,
                                weights.data(), context + i * query_width_);
             });
    return context;
  }

  void finish(float* hidden) {
    const int64_t width = s_.width;
    if (count_ < chunk_.rows * chunk_.length) std::fill(hidden, hidden + chunk_.rows * chunk_.length * width, 0.f);
    each_token(s_.width, [&](int64_t i) {
      const Token& token = w_.tokens[i];
      normalise(s_.final_norm, width, w_.x.data() + i * width, hidden + (token.row * chunk_.length + token.column) * width);
    });
  }

  const Stack& s_;
  const Chunk& chunk_;
  const Cache& cache_;
  const Memory* memories_;
  const int32_t threads_;
  const Kernels& kernel_;
  const int64_t query_width_, key_width_;  // of the queries, and of the keys, of all heads
  Scratch& w_ = scratch();
  int64_t count_ = 0;
  std::vector<int64_t> places_;
  bool sorted_ = false;
};

}  // namespace

Status heedful_forward(const Stack* stack, const Chunk* chunk, const Cache* cache, const Memory* memories, float* hidden,
                       int32_t threads) {
  return Forward(*stack, *chunk, *cache, memories, threads).run(hidden);
}
