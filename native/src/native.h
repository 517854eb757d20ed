// What crosses the border to Python: plain structures that own nothing, and the functions that read them.
//
// Lengths count numbers, not bytes. All tensors are dense and row-major. Nothing is kept of what is handed over, but of a
// Matrix, which is packed once and owned by whoever made it.
#pragma once

#include <cstdint>

extern "C" {

struct Matrix;  // of a linear map, packed for the processor: bytes with a scale for each row, or floats

struct Linear {         // x W' + b
  const Matrix* weight;  // null: the identity
  const float* bias;     // null: none
};

struct Norm {          // LayerNorm
  const float* gain;   // null: no norm at all
  const float* bias;   // null: none
  float epsilon;
};

struct Table {          // a vector for each entry; bytes with scales, or floats
  const int8_t* bytes;  // null: floats
  const float* scale;
  const float* floats;  // both null: no table
  int64_t entries;
};

struct Attention {
  Linear query, key_value, output;  // keys first, then values
  Norm norm;
};

struct Layer {
  Attention self;
  const Attention* across;  // one for each memory
  Linear inner, outer;
  Norm norm;
};

enum Activation : int32_t { RELU, GELU, GELU_TANH, SILU };

struct Stack {
  Table words, segments;
  const float* places;           // [positions, width], added to words; null: none
  const float *cosines, *sines;  // [positions, width / heads / 2], by which self-attention is turned; null: not at all
  Norm embedding_norm, final_norm;
  const Layer* layers;
  int64_t positions, depth, memories, width, heads;
  int64_t before, after;  // positions that a token sees; -1: all
  float scale;            // of words
  int32_t pre_norm, activation;
};

struct Chunk {                   // tokens [rows, length]
  const int64_t *ids, *positions;  // positions: -1 where there is none
  const int64_t* segments;         // null: 0
  const float* vectors;            // [rows, length, width] instead of ids; null: ids
  int64_t rows, length;
};

struct Cache {              // keys and values that tokens have left
  float* numbers;           // [depth, rows, columns, 2, width]
  int64_t rows, columns;
  int64_t layer;            // numbers from one layer to the next; 0: one after the other in the same place
  const int32_t* past;      // [chunk.rows, read, 2]: of each key the cache's row, -1 where there is none, and position
  int64_t read;             // columns that hold keys
  int32_t* present;         // the same behind the chunk, [chunk.rows, read + chunk.length, 2]; written
};

struct Memory {               // keys and values across
  const float* numbers;       // [depth, rows, slots, 2, width]
  const int32_t* positions;   // [rows, slots]: -1 where there is none
  const int32_t* of;          // [chunk.rows]: the row of each row of the chunk
  int64_t rows, slots;
};

struct Growing {  // the rows of greedy search and of sampling, before a token or behind it
  int64_t *positions, *lengths;
  uint8_t* done;
};

struct Writing {  // until when rows go on, and by what
  const int64_t *limits, *forbidden;
  int64_t forbidden_count, eos, steps;
};

struct Beams {  // the sentences of a beam search, before a token or behind it
  int64_t* counts;   // [sentences]
  float* live;       // [sentences, width]: log-probabilities, falling
  uint8_t* done;     // [sentences]
  float* ended;      // [sentences, kept, 3]: score, log-probability, that of the last token
  int64_t* places;   // [sentences, kept]: tokens * width + beam
  int64_t* last;     // [sentences, kept]
};

struct Candidates {  // continuations, best first
  float *totals, *values;
  int64_t *beams, *ids;
  uint8_t* ends;
  int64_t* ranks;
};

enum Status : int32_t { DONE, POSITION_TOO_LARGE, NO_SUCH_ENTRY };

#pragma GCC visibility push(default)

// The instruction sets that this processor has of those that there are kernels for, best first, separated by spaces.
const char* heedful_processors();
// Which of them packs matrices and computes from now on; false: this processor has none of that name.
int32_t heedful_use(const char* name);

Matrix* heedful_bytes(const int8_t* rows, const float* scale, int64_t n, int64_t k);
Matrix* heedful_floats(const float* rows, int64_t n, int64_t k);
void heedful_free(Matrix* matrix);
// out[i] = x[i] W' + b, for `count` vectors.
void heedful_linear(const Matrix* matrix, const float* bias, const float* x, int64_t count, float* out, int32_t threads);

// Hidden vectors [rows, length, width] of a chunk, zero where there is no token.
Status heedful_forward(const Stack* stack, const Chunk* chunk, const Cache* cache, const Memory* memories, float* hidden,
                       int32_t threads);

// Up to `steps` tokens of each row, each the most probable one but for those that are forbidden; of equal ones that with
// the smallest number, and -1 where none is possible. What is read first is `chunk`, of length 1; the last token is picked
// and not read. `before` and `after` are as in `heedful_grow`, and so are ids, log_probabilities and at, [steps, rows].
// cache->present is the table behind what was read, as wide as that. told: steps taken, and the first row without a
// token, or -1.
Status heedful_write(const Stack* stack, const Linear* output, const Chunk* chunk, const Cache* cache, const Memory* memories,
                     const Writing* how, const Growing* before, const Growing* after, int64_t* ids,
                     float* log_probabilities, int64_t* at, int64_t* told, int32_t threads);

// log(sum(exp(x))) of each row.
void heedful_normalisers(const float* x, int64_t rows, int64_t columns, float* out, int32_t threads);
// The k largest of x + offsets in each group of `width` rows, falling; equal ones in the order of rows, then columns.
// Not a number is larger than infinity. k is at most width * columns. The last three may be null: numbers in the same
// places less those of their rows.
void heedful_top(const float* x, const float* offsets, int64_t groups, int64_t width, int64_t columns, int64_t k,
                 float* values, int64_t* members, int64_t* places, const float* logits, const float* normalisers,
                 float* log_probabilities, int32_t threads);
// Rows behind the tokens `picked`, -1 where none is possible, which `ended` says to be their last or not: log-probabilities
// of the tokens, and the positions at which they stand, -1 in rows that were done before. told: how many groups of `copies`
// rows are done, and the first row that goes on and has no token, or -1.
void heedful_grow(const float* logits, const float* normalisers, int64_t rows, int64_t columns, int64_t copies,
                  const int64_t* picked, const uint8_t* ended, const int64_t* limits, const Growing* before,
                  const Growing* after, float* log_probabilities, int64_t* at, int64_t* told);
// Sentences behind one more token of each beam, and the `width` continuations of 2 * width that live on. The divisor of a
// hypothesis of n tokens is divisors[n]. told: how many sentences are done, and whether beams of others changed places.
void heedful_select(const Candidates* found, int64_t sentences, int64_t width, int64_t kept, const float* divisors,
                    const int64_t* forced, const int64_t* limits, const Beams* before, const Beams* after,
                    const Candidates* chosen, int64_t* told);

#pragma GCC visibility pop
}
