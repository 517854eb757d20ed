// Calls all functions with random shapes and compares them with plain loops of doubles; for runs under sanitizers.
//
//     fuzz ROUNDS SEED
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "../src/native.h"

namespace {

using Floats = std::vector<float>;

struct RandomSource {
  std::mt19937 engine;

  int64_t whole(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(engine); }
  float number() { return std::normal_distribution<float>()(engine); }
  Floats numbers(int64_t count) {
    Floats all(count);
    for (float& each : all) each = number();
    return all;
  }
};

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("failed: %s\n", what);
  std::exit(1);
}

bool near(double a, double b, double slack) { return std::fabs(a - b) <= slack * (1 + std::fabs(b)); }

float convert_to_bfloat16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000;
  std::memcpy(&x, &bits, 4);
  return x;
}

// x W' + b with weights of each kind; a vector alone must give the same numbers as among others.
void check_linear(RandomSource& chance) {
  const int64_t n = chance.whole(1, 150), k = chance.whole(1, 200), count = chance.whole(0, 40);
  std::vector<int8_t> rows(n * k);
  for (int8_t& each : rows) each = (int8_t)chance.whole(-127, 127);
  const Floats scale = chance.numbers(n), bias = chance.numbers(n), floats = chance.numbers(n * k);
  Floats x(count * k), found(count * n), alone(n);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < k; ++j) x[i * k + j] = j ? (float)chance.whole(-127, 127) : 127.f;
  const int32_t threads = (int32_t)chance.whole(1, 4);
  enum { INT8, BFLOAT16, FLOAT32 };
  for (int kind : {INT8, BFLOAT16, FLOAT32}) {
    Matrix* matrix = kind == INT8       ? heedful_pack_int8(rows.data(), scale.data(), n, k)
                     : kind == BFLOAT16 ? heedful_pack_bfloat16(floats.data(), n, k)
                                        : heedful_pack_float32(floats.data(), n, k);
    heedful_linear(matrix, chance.whole(0, 1) ? nullptr : bias.data(), x.data(), count, found.data(), threads);
    heedful_linear(matrix, bias.data(), x.data(), count, found.data(), threads);
    const char* what = kind == INT8 ? "int8" : kind == BFLOAT16 ? "bfloat16" : "float32";
    for (int64_t i = 0; i < count; ++i) {
      heedful_linear(matrix, bias.data(), x.data() + i * k, 1, alone.data(), threads);
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) {
          const float weight = floats[j * k + l];
          sum += x[i * k + l] * (kind == INT8 ? (double)rows[j * k + l]
                                              : (double)(kind == BFLOAT16 ? convert_to_bfloat16(weight) : weight));
        }
        const double slack = kind == INT8 ? 1e-5 : 1e-5 * 127 * std::sqrt((double)k);
        expect(near(found[i * n + j], sum * (kind == INT8 ? scale[j] : 1) + bias[j], slack), what);
        expect(found[i * n + j] == alone[j], "a vector alone");
      }
    }
    heedful_free(matrix);
  }
}

void check_ranking(RandomSource& chance) {
  const int64_t groups = chance.whole(1, 9), width = chance.whole(1, 5), columns = chance.whole(1, 400);
  const int64_t k = chance.whole(1, std::min<int64_t>(64, width * columns)), rows = groups * width;
  Floats x(rows * columns), offsets = chance.numbers(rows), totals(rows), values(groups * k), own(groups * k);
  for (float& each : x) each = chance.whole(0, 20) ? (float)chance.whole(-9, 9) : -INFINITY;
  std::vector<int64_t> members(groups * k), places(groups * k);
  const int32_t threads = (int32_t)chance.whole(1, 4);
  heedful_normalisers(x.data(), rows, columns, totals.data(), threads);
  heedful_top(x.data(), offsets.data(), groups, width, columns, k, values.data(), members.data(), places.data(), x.data(),
              totals.data(), own.data(), threads);
  for (int64_t group = 0; group < groups; ++group) {
    Floats sums;
    for (int64_t row = group * width; row < (group + 1) * width; ++row) {
      double total = 0;
      for (int64_t j = 0; j < columns; ++j) total += std::exp((double)x[row * columns + j]);
      expect(std::isinf(totals[row]) ? total == 0 : near(totals[row], std::log(total), 1e-5), "normalisers");
      for (int64_t j = 0; j < columns; ++j) sums.push_back(x[row * columns + j] + offsets[row]);
    }
    std::sort(sums.begin(), sums.end(), [](float a, float b) { return a > b; });
    for (int64_t i = 0; i < k; ++i) {
      const int64_t at = group * k + i, row = group * width + members[at];
      expect(values[at] == sums[i], "values of the largest");
      expect(values[at] == x[row * columns + places[at]] + offsets[row], "places of the largest");
      expect(std::isinf(values[at]) || own[at] == x[row * columns + places[at]] - totals[row], "log-probabilities");
    }
  }
}

void check_beam_search(RandomSource& chance) {
  const int64_t groups = chance.whole(1, 6), width = chance.whole(1, 5), kept = chance.whole(1, width), most = 2 * width;
  std::vector<int64_t> counts(groups, 3), places(groups * kept), last(groups * kept), forced(groups), limits(groups, 9);
  Floats live = chance.numbers(groups * width), ended(groups * kept * 3, -INFINITY), divisors(20, 1.f);
  std::vector<uint8_t> done(groups), ends(groups * most);
  Floats totals = chance.numbers(groups * most), values = totals;
  std::vector<int64_t> beams(groups * most), ids(groups * most), ranks(groups * most);
  for (uint8_t& each : done) each = (uint8_t)chance.whole(0, 1);
  for (uint8_t& each : ends) each = (uint8_t)chance.whole(0, 1);
  for (int64_t i = 0; i < groups * most; ++i) beams[i] = chance.whole(0, width - 1), ranks[i] = i % most;
  auto counts_after = counts, places_after = places, last_after = last;
  auto live_after = live, ended_after = ended;
  auto done_after = done;
  Floats own_totals(groups * width), own_values(groups * width);
  std::vector<int64_t> own_beams(groups * width), own_ids(groups * width), own_ranks(groups * width);
  std::vector<uint8_t> own_ends(groups * width);
  const Candidates found{totals.data(), values.data(), beams.data(), ids.data(), ends.data(), ranks.data()};
  const Candidates chosen{own_totals.data(), own_values.data(), own_beams.data(),
                          own_ids.data(),    own_ends.data(),   own_ranks.data()};
  const Beams before{counts.data(), live.data(), done.data(), ended.data(), places.data(), last.data()};
  const Beams after{counts_after.data(), live_after.data(),   done_after.data(),
                    ended_after.data(),  places_after.data(), last_after.data()};
  int64_t result[2];
  heedful_select(&found, groups, width, kept, divisors.data(), forced.data(), limits.data(), &before, &after, &chosen, result);
  for (int64_t group = 0; group < groups; ++group) {
    expect(counts_after[group] == 4 - done[group], "counts");
    for (int64_t i = 1; i < kept; ++i)
      expect(ended_after[3 * (group * kept + i)] <= ended_after[3 * (group * kept + i - 1)], "finished hypotheses are sorted");
  }
}

struct Weights {  // weights of a stack, and all that it points to
  std::vector<Matrix*> matrices;
  std::vector<Floats> floats;
  std::vector<Attention> across;
  std::vector<Layer> layers;

  ~Weights() {
    for (Matrix* each : matrices) heedful_free(each);
  }
  const float* keep(Floats numbers) {
    floats.push_back(std::move(numbers));
    return floats.back().data();
  }
  Linear linear(RandomSource& chance, int64_t n, int64_t k) {
    Floats rows = chance.numbers(n * k), scale(n, 0.01f);
    std::vector<int8_t> bytes(n * k);
    for (int8_t& each : bytes) each = (int8_t)chance.whole(-127, 127);
    const int64_t kind = chance.whole(0, 2);
    matrices.push_back(kind == 0   ? heedful_pack_int8(bytes.data(), scale.data(), n, k)
                       : kind == 1 ? heedful_pack_bfloat16(rows.data(), n, k)
                                   : heedful_pack_float32(rows.data(), n, k));
    return {matrices.back(), chance.whole(0, 1) ? keep(chance.numbers(n)) : nullptr};
  }
  Norm norm(RandomSource& chance, int64_t width) {
    return {keep(chance.numbers(width)), keep(chance.numbers(width)), 1e-5f, (int32_t)chance.whole(0, 1)};
  }
  Attention attention(RandomSource& chance, int64_t width, int64_t queries, int64_t keys, int64_t size) {
    const bool normalised = chance.whole(0, 1);
    const Norm none{nullptr, nullptr, 0.f, 0};
    return {linear(chance, queries, width),
            linear(chance, 2 * keys, width),
            linear(chance, width, queries),
            norm(chance, width),
            normalised ? norm(chance, size) : none,
            normalised ? norm(chance, size) : none};
  }
};

// Rules about repetition, with random texts.
struct RandomRules {
  std::vector<int64_t> texts, exempt, after;
  Repetition rules;

  RandomRules(RandomSource& chance, int64_t rows, int64_t steps) : exempt{chance.whole(0, 10)} {
    const int64_t length = chance.whole(0, 5);
    for (int64_t i = 0; i < rows * length; ++i) texts.push_back(chance.whole(-1, 10));
    after.resize(rows * (length + steps));
    rules = {texts.data(), exempt.data(), length, 1, chance.whole(0, 3), (float)chance.whole(1, 3) / 2, after.data()};
  }

  // Expects the texts after some steps to begin with those before them, unless beams change places, and to end with
  // the tokens of the last step.
  void check(int64_t rows, int64_t steps, const int64_t* ids, bool in_place) const {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t* text = after.data() + row * (rules.length + steps);
      if (in_place) expect(std::equal(text, text + rules.length, texts.data() + row * rules.length), "texts before");
      for (int64_t step = in_place ? 0 : std::max<int64_t>(steps - 1, 0); step < steps; ++step)
        expect(text[rules.length + step] == ids[step * rows + row], "texts after the steps");
    }
  }
};

// Several steps of greedy search; one thread and several threads must pick the same tokens.
void check_greedy_search(RandomSource& chance, const Stack& stack, const Linear& output, const std::vector<Memory>& seen,
                         Chunk first) {
  const int64_t rows = first.rows, steps = chance.whole(1, 4), width = stack.key_value_heads * stack.head_width;
  const std::vector<int64_t> positions(rows, 0), limits(rows, chance.whole(1, 5)), forbidden{chance.whole(0, 10)};
  std::vector<uint8_t> done(rows), done_after(rows);
  for (uint8_t& each : done) each = (uint8_t)chance.whole(0, 1);
  std::vector<int64_t> starts(rows), lengths(rows), starts_after(rows), lengths_after(rows);
  std::vector<int64_t> ids(steps * rows), at(steps * rows), result(2), again;
  Floats pages(stack.depth * rows * steps * 2 * width), values(steps * rows);
  std::vector<int32_t> present(rows * steps * 2);
  first.positions = positions.data();
  const RandomRules random(chance, rows, steps);
  const bool ruled = chance.whole(0, 1);
  const DecodingOptions how{limits.data(), forbidden.data(), 1, chance.whole(0, 10), steps, ruled ? &random.rules : nullptr};
  const RowState before{starts.data(), lengths.data(), done.data()};
  const RowState after{starts_after.data(), lengths_after.data(), done_after.data()};
  for (int32_t threads : {1, 3}) {
    const Cache cache{pages.data(), rows, steps, rows * steps * 2 * width, nullptr, nullptr, 0, present.data()};
    const Status status = heedful_decode_greedy(&stack, &output, &first, &cache, seen.data(), &how, &before, &after,
                                                ids.data(), values.data(), at.data(), result.data(), threads);
    if (status == POSITION_TOO_LARGE) return;
    expect(status == DONE && result[0] >= 1 && result[0] <= steps, "steps");
    std::vector<int64_t> taken(ids.begin(), ids.begin() + result[0] * rows);
    if (ruled) random.check(rows, result[0], ids.data(), true);
    expect(std::find(taken.begin(), taken.end(), forbidden[0]) == taken.end() || !forbidden[0], "forbidden tokens");
    if (threads == 1)
      again = taken;
    else
      expect(again == taken, "threads pick the same tokens");
  }
}

// Several steps of beam search; one thread and several threads must find the same beams.
void check_beam_steps(RandomSource& chance, const Stack& stack, const Linear& output, const std::vector<Memory>& seen,
                      Chunk first) {
  const int64_t rows = first.rows, beam = rows % 2 ? 1 : 2, sentences = rows / beam, kept = chance.whole(1, beam);
  const int64_t steps = chance.whole(1, 4), width = stack.key_value_heads * stack.head_width;
  const std::vector<int64_t> positions(rows, 0), limits(sentences, chance.whole(1, 5)), forced(sentences, 0);
  const std::vector<int64_t> forbidden{chance.whole(0, 10)};
  const Floats divisors(20, 1.f);
  std::vector<uint8_t> done(sentences), done_after(sentences);
  for (uint8_t& each : done) each = (uint8_t)(chance.whole(0, 3) == 0);
  std::vector<int64_t> counts(sentences), places(sentences * kept), last(sentences * kept), ids(steps * rows);
  std::vector<int64_t> counts_after(sentences), places_after(sentences * kept), last_after(sentences * kept);
  std::vector<int64_t> beams(steps * rows), result(3), again;
  Floats live(rows), ended(sentences * kept * 3, -INFINITY), live_after(rows), ended_after(sentences * kept * 3);
  Floats pages(stack.depth * rows * steps * 2 * width), values(steps * rows);
  std::vector<int32_t> present(rows * steps * 2);
  first.positions = positions.data();
  const RandomRules random(chance, rows, steps);
  const bool ruled = chance.whole(0, 1);
  const DecodingOptions options{limits.data(), forbidden.data(), 1, chance.whole(0, 10), steps,
                                ruled ? &random.rules : nullptr};
  const Beams before{counts.data(), live.data(), done.data(), ended.data(), places.data(), last.data()};
  const Beams after{counts_after.data(), live_after.data(),   done_after.data(),
                    ended_after.data(),  places_after.data(), last_after.data()};
  for (int32_t threads : {1, 3}) {
    const Cache cache{pages.data(), rows, steps, rows * steps * 2 * width, nullptr, nullptr, 0, present.data()};
    const Status status = heedful_decode_beams(&stack, &output, &first, &cache, seen.data(), &options, beam, kept,
                                               divisors.data(), forced.data(), &before, &after, ids.data(), values.data(),
                                               beams.data(), result.data(), threads);
    if (status == POSITION_TOO_LARGE) return;
    expect(status == DONE && result[0] >= 0 && result[0] <= steps, "steps of beams");
    if (ruled) random.check(rows, result[0], ids.data(), beam == 1);
    expect(result[0] == steps || result[1] == sentences, "a search ends when all sentences are done");
    std::vector<int64_t> taken(ids.begin(), ids.begin() + result[0] * rows);
    taken.insert(taken.end(), beams.begin(), beams.begin() + result[0] * rows);
    for (int64_t i = 0; i < result[0] * rows; ++i)
      expect(beams[i] >= 0 && beams[i] < beam && ids[i] >= 0 && ids[i] < stack.words.entries, "beams and tokens");
    if (threads == 1)
      again = taken;
    else
      expect(again == taken, "threads find the same beams");
  }
}

// A prompt and a step after it; one thread and several threads must compute the same numbers.
void check_forward(RandomSource& chance) {
  const int64_t shared = chance.whole(1, 3), heads = shared * chance.whole(1, 3), size = 2 * chance.whole(1, 20);
  const int64_t width = chance.whole(1, 90), queries = heads * size, keys = shared * size, depth = chance.whole(1, 2);
  const int64_t rows = chance.whole(1, 5), length = chance.whole(1, 6), slots = chance.whole(1, 5), words = 11;
  const int64_t wide = chance.whole(1, 50), memories = chance.whole(0, 2), room = length + 1;
  Weights weights;
  weights.floats.reserve(1000);
  weights.across.reserve(depth * memories + 1);
  for (int64_t layer = 0; layer < depth; ++layer) {
    const Attention* across = weights.across.data() + weights.across.size();
    for (int64_t i = 0; i < memories; ++i) weights.across.push_back(weights.attention(chance, width, queries, keys, size));
    const Linear gate = chance.whole(0, 1) ? weights.linear(chance, wide, width) : Linear{nullptr, nullptr};
    weights.layers.push_back({weights.attention(chance, width, queries, keys, size), across,
                              weights.linear(chance, wide, width), weights.linear(chance, width, wide), gate,
                              weights.norm(chance, width)});
  }
  const bool turned = chance.whole(0, 1);
  const float* table = weights.keep(chance.numbers((room + 1) * std::max(width, size)));
  const Norm none{nullptr, nullptr, 0.f, 0};
  const Stack stack{{nullptr, nullptr, weights.keep(chance.numbers(words * width)), words},
                    {nullptr, nullptr, nullptr, 0},
                    turned ? nullptr : table,
                    turned ? table : nullptr,
                    turned ? table : nullptr,
                    none,
                    weights.norm(chance, width),
                    weights.layers.data(),
                    room + 1,
                    depth,
                    memories,
                    width,
                    heads,
                    shared,
                    size,
                    chance.whole(0, size / 2),
                    chance.whole(-1, 2),
                    0,
                    1.5f,
                    (int32_t)chance.whole(0, 1),
                    (int32_t)chance.whole(0, 3)};
  std::vector<int64_t> ids(rows * length), positions(rows * length), next(rows, 1), behind(rows);
  for (int64_t i = 0; i < rows * length; ++i) {
    ids[i] = chance.whole(0, words - 1);
    positions[i] = chance.whole(0, 4) ? i % length : -1;
  }
  for (int64_t& each : behind) each = chance.whole(0, 3) ? length : -1;
  std::vector<int32_t> of(rows), filled(rows * slots), past(rows * length * 2), present(rows * room * 2);
  for (int32_t& each : of) each = (int32_t)chance.whole(0, rows - 1);
  for (int32_t& each : filled) each = (int32_t)chance.whole(-1, 0);
  const Floats across = chance.numbers(depth * rows * slots * 2 * keys);
  const std::vector<Memory> seen(memories, Memory{across.data(), filled.data(), of.data(), rows, slots});
  Floats pages(depth * rows * room * 2 * keys), prompt(rows * length * width), step(rows * width), again;
  for (int32_t threads : {1, 3}) {
    const Chunk first{ids.data(), positions.data(), nullptr, nullptr, rows, length};
    const Cache empty{pages.data(), rows, room, rows * room * 2 * keys, nullptr, nullptr, 0, past.data()};
    expect(heedful_forward(&stack, &first, &empty, seen.data(), prompt.data(), threads) == DONE, "a prompt");
    const Chunk then{next.data(), behind.data(), nullptr, nullptr, rows, 1};
    const Cache used{pages.data(), rows, room, rows * room * 2 * keys, past.data(), nullptr, length, present.data()};
    expect(heedful_forward(&stack, &then, &used, seen.data(), step.data(), threads) == DONE, "a step");
    for (float each : step) expect(std::isfinite(each), "finite numbers");
    if (threads == 1)
      again = step;
    else
      expect(again == step, "threads compute the same numbers");
  }
  check_greedy_search(chance, stack, weights.linear(chance, words, width), seen,
                      {ids.data(), positions.data(), nullptr, nullptr, rows, 1});
  check_beam_steps(chance, stack, weights.linear(chance, words, width), seen,
                   {ids.data(), positions.data(), nullptr, nullptr, rows, 1});
  behind[0] = room + 1;
  const Chunk far{next.data(), behind.data(), nullptr, nullptr, rows, 1};
  const Cache used{pages.data(), rows, room, rows * room * 2 * keys, past.data(), nullptr, length, present.data()};
  expect(heedful_forward(&stack, &far, &used, seen.data(), step.data(), 1) == POSITION_TOO_LARGE, "positions");
}

// Numbers of operands in the type of an operator, and back.
struct Numbers {
  bool bfloat16;
  Floats floats;
  std::vector<uint16_t> halves;

  Numbers(bool half, const Floats& all) : bfloat16(half), floats(all), halves(half ? all.size() : 0) {
    for (size_t i = 0; half && i < all.size(); ++i) {
      floats[i] = convert_to_bfloat16(all[i]);
      uint32_t bits;
      std::memcpy(&bits, &floats[i], 4);
      halves[i] = (uint16_t)(bits >> 16);
    }
  }

  void* data() { return bfloat16 ? (void*)halves.data() : floats.data(); }

  float at(int64_t i) const {
    if (!bfloat16) return floats[i];
    const uint32_t bits = (uint32_t)halves[i] << 16;
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
  }
};

// Attention whose values are the same for all keys returns these values, and has no gradient of queries and keys.
void check_attention(RandomSource& chance, bool half, int32_t threads) {
  const int64_t rows = chance.whole(1, 4), heads = chance.whole(1, 3), queries = chance.whole(1, 40);
  const int64_t keys = chance.whole(1, 40), width = chance.whole(1, 40), wide = chance.whole(1, 40);
  const Floats constant = chance.numbers(wide);
  Floats same(rows * keys * heads * wide);
  for (size_t i = 0; i < same.size(); ++i) same[i] = constant[i % wide];
  Numbers query(half, chance.numbers(rows * queries * heads * width)), key(half, chance.numbers(rows * keys * heads * width));
  Numbers value(half, same), context(half, Floats(rows * queries * heads * wide));
  Numbers weights(half, Floats(rows * heads * queries * keys));
  std::vector<uint8_t> hidden(queries * keys);
  for (uint8_t& each : hidden) each = (uint8_t)(chance.whole(0, 2) == 0);
  const auto heads_of = [&](Numbers& x, int64_t tokens, int64_t size) {
    return HeadVectors{x.data(), tokens * heads * size, heads * size, size};
  };
  AttentionBatch batch{heads_of(query, queries, width), heads_of(key, keys, width), heads_of(value, keys, wide),
                       heads_of(context, queries, wide), rows, heads, queries, keys, width, wide, hidden.data(),
                       0, keys, 1, nullptr, weights.data(), .3f, half};
  heedful_attention(&batch, threads);
  const double slack = half ? 2e-2 : 1e-4;
  for (int64_t q = 0; q < queries; ++q) {
    bool sees = false;
    for (int64_t k = 0; k < keys; ++k) sees |= !hidden[q * keys + k];
    for (int64_t i = 0; i < heads * wide; ++i)
      expect(near(context.at(q * heads * wide + i), sees ? value.at(i % wide) : 0, slack), "contexts of equal values");
  }
  Numbers d_query = query, d_key = key, d_value = value;
  const HeadVectors gradients[] = {heads_of(d_query, queries, width), heads_of(d_key, keys, width),
                                   heads_of(d_value, keys, wide)};
  heedful_attention_backward(&batch, gradients, threads);
  for (int64_t i = 0; i < rows * queries * heads * width; ++i)
    expect(near(d_query.at(i), 0, half ? .3 : 1e-3), "gradients of queries");
}

// Operators whose results are compared with doubles.
void check_training(RandomSource& chance) {
  const bool half = chance.whole(0, 1);
  const int32_t threads = (int32_t)chance.whole(1, 4), activation = (int32_t)chance.whole(RELU, NO_ACTIVATION);
  const int64_t rows = chance.whole(1, 300), width = chance.whole(1, 80), count = rows * width;
  const double slack = half ? 2e-2 : 1e-4;
  check_attention(chance, half, threads);
  Numbers x(half, chance.numbers(count)), gradient(half, chance.numbers(count)), out(half, Floats(count));
  Numbers d_x(half, Floats(count));
  const Floats gain = chance.numbers(width), bias = chance.numbers(width);
  Floats moments(rows * 2), d_gain(width), d_bias(width);
  const NormBatch norm{x.data(), gain.data(), bias.data(), moments.data(), rows, width, 1e-3f, half};
  heedful_norm(&norm, out.data(), threads);
  heedful_norm_backward(&norm, gradient.data(), d_x.data(), d_gain.data(), d_bias.data(), threads);
  for (int64_t j = 0; j < width; ++j) {
    double sum = 0, scaled = 0;
    for (int64_t i = 0; i < rows; ++i) {
      const double normal = (x.at(i * width + j) - moments[2 * i]) * (double)moments[2 * i + 1];
      sum += gradient.at(i * width + j), scaled += gradient.at(i * width + j) * normal;
      expect(near(out.at(i * width + j), normal * gain[j] + bias[j], slack), "norm");
    }
    expect(near(d_bias[j], sum, 1e-4 * rows) && near(d_gain[j], scaled, 1e-4 * rows), "gradients of a norm");
  }
  std::vector<uint8_t> bytes(count);
  for (uint8_t& each : bytes) each = (uint8_t)chance.whole(0, 255);
  const Dropout dropout{bytes.data(), (int32_t)chance.whole(0, 255), 2.f};
  Numbers again = out;
  heedful_dropout(&dropout, x.data(), gradient.data(), count, out.data(), half, threads);
  heedful_dropout(&dropout, nullptr, gradient.data(), count, again.data(), half, 1);
  for (int64_t i = 0; i < count; ++i) {
    expect(again.at(i) == (bytes[i] < dropout.threshold ? 0 : 2 * gradient.at(i)), "dropout");
    expect(near(out.at(i), x.at(i) + again.at(i), slack), "a sum with dropout");
  }
  Numbers inner = x;
  heedful_bias_activation(inner.data(), rows, width, bias.data(), activation, out.data(), half, threads);
  heedful_bias_activation_backward(gradient.data(), inner.data(), rows, width, activation, d_x.data(), d_bias.data(), half,
                                   threads);
  for (int64_t i = 0; i < count; ++i) {
    const double v = x.at(i) + bias[i % width];
    const double y = activation == NO_ACTIVATION ? v
                     : activation == RELU        ? std::max(v, 0.)
                     : activation == SILU        ? v / (1 + std::exp(-v))
                                                 : v * .5 * std::erfc(-v * M_SQRT1_2);
    expect(near(out.at(i), y, activation == GELU_TANH ? slack + 1e-3 : slack), "activation");
  }
  heedful_bias_activation_backward(gradient.data(), nullptr, rows, width, NO_ACTIVATION, nullptr, d_bias.data(), half,
                                   threads);
  heedful_bias_activation_backward(gradient.data(), inner.data(), rows, width, RELU, d_x.data(), nullptr, half, threads);
  std::vector<int64_t> labels(rows);
  for (int64_t& each : labels) each = chance.whole(0, width - 1);
  Numbers logits = x;
  Floats log_probabilities(rows), chosen(rows), row_weights = chance.numbers(rows);
  heedful_cross_entropy(logits.data(), rows, width, labels.data(), .9f, row_weights.data(), 1, log_probabilities.data(),
                        chosen.data(), half, threads);
  for (int64_t i = 0; i < rows; ++i) {
    double total = 0, rest = 0;
    for (int64_t j = 0; j < width; ++j) total += std::exp((double)x.at(i * width + j)), rest += logits.at(i * width + j);
    expect(near(log_probabilities[i], x.at(i * width + labels[i]) - std::log(total), 1e-4), "log-probabilities of labels");
    expect(near(rest, .1 * row_weights[i], slack * 4), "gradients of logits");
  }
}

}  // namespace

int main(int count, char** words) {
  const int64_t rounds = count > 1 ? std::atoll(words[1]) : 100;
  RandomSource chance{std::mt19937(count > 2 ? (unsigned)std::atoll(words[2]) : 1)};
  std::istringstream names(heedful_processors());
  for (std::string name; names >> name;) {
    expect(heedful_use(name.c_str()), "an instruction set of this processor");
    for (int64_t round = 0; round < rounds; ++round)
      check_linear(chance), check_ranking(chance), check_beam_search(chance), check_forward(chance), check_training(chance);
    std::printf("%s: %lld rounds\n", name.c_str(), (long long)rounds);
  }
  return 0;
}
