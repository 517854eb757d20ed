// Interface to Python: plain structures, which own no memory, and the functions that read them.
//
// Lengths and strides count numbers, not bytes. Tensors without strides are dense and row-major. The library keeps no arguments, except a Matrix,
// which is packed once; the caller frees it.
#pragma once

#include <cstdint>

extern "C" {

struct Matrix;  // matrix of a linear map, packed for the processor: int8 with a scale for each row, bf16, or floats

struct Linear {         // x W' + b
  const Matrix* weight;  // null: the identity
  const float* bias;     // null: none
};

struct Norm {          // LayerNorm or RMSNorm
  const float* gain;   // null: no norm
  const float* bias;   // null: none
  float epsilon;
  int32_t centred;     // whether the mean is subtracted; 0: RMSNorm
};

struct Table {          // embedding table: int8 with scales, or floats
  const int8_t* bytes;  // null: floats
  const float* scale;
  const float* floats;  // both null: no table
  int64_t entries;
};

struct Attention {
  Linear query, key_value, output;  // keys first, then values
  Norm norm;
  Norm query_norm, key_norm;        // of the vectors of each head; keys of memories are normalised already
};

struct Layer {
  Attention self;
  const Attention* across;  // one for each memory
  Linear inner, outer;
  Linear gate;              // without a weight: none; otherwise its result multiplies the activation
  Norm norm;
};

enum Activation : int32_t { RELU, GELU, GELU_TANH, SILU, NO_ACTIVATION };

struct Stack {
  Table words, segments;
  const float* places;           // [positions, width], added to words; null: none
  const float *cosines, *sines;  // [positions, turned]: rotary positions; null: none
  Norm embedding_norm, final_norm;
  const Layer* layers;
  int64_t positions, depth, memories, width, heads;
  int64_t key_value_heads, head_width;  // each head of keys and values serves heads / key_value_heads heads of queries
  int64_t turned;         // pairs of numbers of a head that are rotated, the first ones
  int64_t before, after;  // positions before and after a token that it attends to; -1: all
  float scale;            // factor of the word embeddings
  int32_t pre_norm, activation;
};

struct Chunk {                   // tokens [rows, length]
  const int64_t *ids, *positions;  // positions: -1 for no token
  const int64_t* segments;         // null: 0
  const float* vectors;            // [rows, length, width], used instead of ids; null: ids
  int64_t rows, length;
};

struct Cache {              // keys and values of earlier tokens
  float* numbers;           // [depth, rows, columns, 2, key_value_heads * head_width]
  int64_t rows, columns;
  int64_t layer;            // numbers from one layer to the next; 0: all layers share the same memory
  const int32_t* past;      // [chunk.rows, read, 2]: row in the cache (-1: no key) and position of each key
  const int64_t* parents;   // [chunk.rows]: the row of `past` that each row continues; null: the same row
  int64_t read;             // number of columns with keys
  int32_t* present;         // output: the same after the chunk, [chunk.rows, read + chunk.length, 2]
};

struct Memory {               // keys and values of a cross-attention
  const float* numbers;       // [depth, rows, slots, 2, key_value_heads * head_width]
  const int32_t* positions;   // [rows, slots]: -1 for no slot
  const int32_t* of;          // [chunk.rows]: the row of the memory for each row of the chunk
  int64_t rows, slots;
};

struct RowState {  // state of the rows of greedy search and sampling, before or after a token
  int64_t *positions, *lengths;
  uint8_t* done;
};

struct Repetition {             // rules against repeated tokens
  const int64_t* texts;         // [rows, length]: tokens of each row so far, in order; -1: none
  const int64_t* exempt;        // tokens to which the rules do not apply
  int64_t length, exempt_count;
  int64_t ngram_size;           // length of the n-grams that may occur only once in a text; 0: no rule
  float penalty;                // divides positive logits of tokens that occurred, and multiplies the others
  int64_t* after;               // output: the texts after n steps, [rows, length + n]
};

struct DecodingOptions {  // options of several steps of a search
  const int64_t* limits;     // largest number of tokens of each row, or of each sentence of a beam search
  const int64_t* forbidden;  // tokens that are never chosen
  int64_t forbidden_count, eos, steps;
  const Repetition* repetition;  // null: none
};

struct Beams {  // state of the sentences of a beam search, before or after a token
  int64_t* counts;   // [sentences]
  float* live;       // [sentences, width]: log-probabilities in descending order
  uint8_t* done;     // [sentences]
  float* ended;      // [sentences, kept, 3]: score, log-probability, log-probability of the last token
  int64_t* places;   // [sentences, kept]: tokens * width + beam
  int64_t* last;     // [sentences, kept]
};

struct Candidates {  // candidate continuations, best first
  float *totals, *values;
  int64_t *beams, *ids;
  uint8_t* ends;
  int64_t* ranks;
};

struct HeadVectors {          // [rows, tokens, heads, width]; each vector is dense
  void* numbers;
  int64_t row, token, head;   // strides
};

struct AttentionBatch {       // attention that is trained
  HeadVectors query, key, value, context;
  int64_t rows, heads, queries, keys, width, value_width;
  const uint8_t* hidden;      // true for a key that a query does not see; null: none
  int64_t hidden_row, hidden_query, hidden_key;  // strides
  const void* factors;        // of the weights, [rows, heads, queries, keys]; null: none
  void* weights;              // before the factors, of the same shape
  float scale;                // of the scores
  int32_t bfloat16;           // type of all numbers: bf16 or float
};

struct Dropout {
  const uint8_t* bytes;       // a random byte for each number
  int32_t threshold;          // a number whose byte is smaller is dropped
  float scale;                // of the others
};

struct NormBatch {            // LayerNorm of [rows, width]
  const void* x;
  const float *gain, *bias;   // bias may be null
  float* moments;             // [rows, 2]: mean, and 1 / sqrt(variance + epsilon)
  int64_t rows, width;
  float epsilon;
  int32_t bfloat16;
};

enum Status : int32_t { DONE, POSITION_TOO_LARGE, NO_SUCH_ENTRY };

#pragma GCC visibility push(default)

// Returns the instruction sets that this processor and the library support, best first, separated by spaces.
const char* heedful_processors();
// Uses an instruction set from now on; returns false if this processor has none of that name.
int32_t heedful_use(const char* name);

// Packs a matrix [n, k]. Vectors are rounded like the matrix that they are multiplied with.
Matrix* heedful_pack_int8(const int8_t* rows, const float* scale, int64_t n, int64_t k);
Matrix* heedful_pack_bfloat16(const float* rows, int64_t n, int64_t k);
Matrix* heedful_pack_float32(const float* rows, int64_t n, int64_t k);
void heedful_free(Matrix* matrix);
// Computes out[i] = x[i] W' + b for `count` vectors.
void heedful_linear(const Matrix* matrix, const float* bias, const float* x, int64_t count, float* out, int32_t threads);

// Computes the hidden vectors [rows, length, width] of a chunk, with zeros for positions without a token.
Status heedful_forward(const Stack* stack, const Chunk* chunk, const Cache* cache, const Memory* memories, float* hidden,
                       int32_t threads);

// Runs up to `steps` steps of greedy search. Each token is the most probable one that is not forbidden; if several are
// equal, the smallest id; -1 if no token is possible. The first input is `chunk`, of length 1; the last token is not read.
// `before`, `after`, `ids`, `log_probabilities` and `at`, [steps, rows], are as in `heedful_append_tokens`.
// cache->present is the table after the last token that was read. result: the number of steps, and the first row without
// a token, or -1.
Status heedful_decode_greedy(const Stack* stack, const Linear* output, const Chunk* chunk, const Cache* cache,
                             const Memory* memories, const DecodingOptions* options, const RowState* before,
                             const RowState* after, int64_t* ids, float* log_probabilities, int64_t* at, int64_t* result,
                             int32_t threads);
// Runs up to `steps` steps of beam search, with `width` rows of the chunk for each sentence, in the same way. `ids`,
// `log_probabilities` and `beams`, [steps, sentences, width], are those of the live beams after each step; `beams` has the
// beam that each one continues. For the other arguments see `heedful_select`. cache->present is the table before the
// last selection. result: the numbers of steps and of done sentences, and whether beams of others changed places in the
// last step.
Status heedful_decode_beams(const Stack* stack, const Linear* output, const Chunk* chunk, const Cache* cache,
                            const Memory* memories, const DecodingOptions* options, int64_t width, int64_t kept,
                            const float* divisors, const int64_t* forced, const Beams* before, const Beams* after,
                            int64_t* ids, float* log_probabilities, int64_t* beams, int64_t* result, int32_t threads);

// Computes log(sum(exp(x))) of each row.
void heedful_normalisers(const float* x, int64_t rows, int64_t columns, float* out, int32_t threads);
// Finds the k largest of x + offsets in each group of `width` rows, in descending order; equal ones in the order of rows,
// then columns. NaN is larger than infinity. k is at most width * columns. The last three arguments may be null; otherwise
// log_probabilities are the logits at the same places minus the normaliser of their row.
void heedful_top(const float* x, const float* offsets, int64_t groups, int64_t width, int64_t columns, int64_t k,
                 float* values, int64_t* members, int64_t* places, const float* logits, const float* normalisers,
                 float* log_probabilities, int32_t threads);
// Appends the tokens `picked` to the rows, -1 if no token is possible; `ended` is true for the last token of a row. Outputs
// the log-probabilities and the positions `at` of the tokens, -1 in rows that were done before. result: the number of done
// groups of `copies` rows, and the first row that is not done and has no token, or -1.
void heedful_append_tokens(const float* logits, const float* normalisers, int64_t rows, int64_t columns, int64_t copies,
                           const int64_t* picked, const uint8_t* ended, const int64_t* limits, const RowState* before,
                           const RowState* after, float* log_probabilities, int64_t* at, int64_t* result);
// Advances each sentence by a token of each beam, and selects `width` of the 2 * width continuations. The divisor of a
// hypothesis of n tokens is divisors[n]. `after` may be `before`. result: the number of done sentences, and whether beams of others changed places.
void heedful_select(const Candidates* found, int64_t sentences, int64_t width, int64_t kept, const float* divisors,
                    const int64_t* forced, const int64_t* limits, const Beams* before, const Beams* after,
                    const Candidates* chosen, int64_t* result);

// Operators of training. Their numbers are floats, or bf16 if `bfloat16`; sums are floats. Gradients of gains and biases
// are sums over blocks of rows, so they do not depend on the number of threads.

// Computes context = (softmax(scale q k) factors) v and the weights. Queries that see no key get zeros.
void heedful_attention(const AttentionBatch* batch, int32_t threads);
// Computes the gradients of query, key and value from that of the context, which is in `context`.
void heedful_attention_backward(const AttentionBatch* batch, const HeadVectors* gradients, int32_t threads);
// Computes out = x + dropout(branch), or dropout(branch) if x is null; out may be x or branch.
void heedful_dropout(const Dropout* dropout, const void* x, const void* branch, int64_t count, void* out,
                     int32_t bfloat16, int32_t threads);
// Computes LayerNorm, and the moments that its gradient needs.
void heedful_norm(const NormBatch* batch, void* out, int32_t threads);
void heedful_norm_backward(const NormBatch* batch, const void* gradient, void* d_x, float* d_gain, float* d_bias,
                           int32_t threads);
// Adds the bias, if there is one, to x [rows, width], then computes the activation; out may be x.
void heedful_bias_activation(void* x, int64_t rows, int64_t width, const float* bias, int32_t activation, void* out,
                             int32_t bfloat16, int32_t threads);
// Computes the gradients of x and of the bias from that of the activation of x; x is the result for RELU. For NO_ACTIVATION
// only that of the bias.
void heedful_bias_activation_backward(const void* gradient, const void* x, int64_t rows, int64_t width,
                                      int32_t activation, void* d_x, float* d_bias, int32_t bfloat16, int32_t threads);
// Outputs the logit and the log-probability of the label of each row. If `gradient`, the logits are replaced by
// weight (softmax(logits) - confidence onehot(label)); weights may be null.
void heedful_cross_entropy(void* logits, int64_t rows, int64_t columns, const int64_t* labels, float confidence,
                           const float* weights, int32_t gradient, float* log_probabilities, float* chosen,
                           int32_t bfloat16, int32_t threads);

#pragma GCC visibility pop
}
