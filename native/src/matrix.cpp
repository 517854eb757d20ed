#include "matrix.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "threads.h"

namespace {

const std::vector<const Kernels*>& list_kernels() {
  static const std::vector<const Kernels*> kernels = [] {
    std::vector<const Kernels*> all;
#if defined(__x86_64__)
    for (const Kernels* each : {&AMX, &AVX512_BF16, &AVX512, &AVX2})
      if (each->here()) all.push_back(each);
#elif defined(__aarch64__)
    for (const Kernels* each : {&NEON_I8MM, &NEON})
      if (each->here()) all.push_back(each);
#endif
    all.push_back(&PLAIN);
    return all;
  }();
  return kernels;
}

const Kernels*& current_kernels() {
  static const Kernels* kernel = list_kernels().front();
  return kernel;
}

Matrix* create_matrix(int64_t n, int64_t k) {
  const int64_t columns = kernels().columns;
  return new Matrix{kernels(), n, k, (n + columns - 1) / columns, {}, {}, {}, {}};
}

}  // namespace

const Kernels& kernels() { return *current_kernels(); }

const char* heedful_processors() {
  static const std::string names = [] {
    std::string all;
    for (const Kernels* each : list_kernels()) all += (all.empty() ? "" : " ") + std::string(each->name);
    return all;
  }();
  return names.c_str();
}

int32_t heedful_use(const char* name) {
  for (const Kernels* each : list_kernels())
    if (!std::strcmp(each->name, name)) {
      current_kernels() = each;
      return true;
    }
  return false;
}

Matrix* heedful_pack_int8(const int8_t* rows, const float* scale, int64_t n, int64_t k) {
  Matrix* matrix = create_matrix(n, k);
  const int64_t columns = matrix->kernel.columns, quads = matrix->quads();
  const int8_t offset = matrix->kernel.offset ? -128 : 0;  // adds 128, because the kernel reads the result as unsigned
  matrix->bytes.assign(matrix->panels * quads * columns * 4, offset);
  matrix->scale.assign(matrix->panels * columns, 0.f);
  std::copy(scale, scale + n, matrix->scale.begin());
  for (int64_t row = 0; row < n; ++row) {
    int8_t* panel = matrix->bytes.data() + (row / columns * quads * columns + row % columns) * 4;
    for (int64_t i = 0; i < k; ++i) panel[i / 4 * columns * 4 + i % 4] = (int8_t)(rows[row * k + i] ^ offset);
  }
  return matrix;
}

Matrix* heedful_pack_bfloat16(const float* rows, int64_t n, int64_t k) {
  Matrix* matrix = create_matrix(n, k);
  const int64_t columns = matrix->kernel.columns, pairs = matrix->pairs();
  matrix->halves.assign(matrix->panels * pairs * columns * 2, 0);
  std::vector<uint16_t> rounded(k + PADDING);
  for (int64_t row = 0; row < n; ++row) {
    matrix->kernel.round_halves(rows + row * k, k, rounded.data());
    uint16_t* panel = matrix->halves.data() + (row / columns * pairs * columns + row % columns) * 2;
    for (int64_t i = 0; i < k; ++i) panel[i / 2 * columns * 2 + i % 2] = rounded[i];
  }
  return matrix;
}

Matrix* heedful_pack_float32(const float* rows, int64_t n, int64_t k) {
  Matrix* matrix = create_matrix(n, k);
  const int64_t columns = matrix->kernel.columns;
  matrix->floats.assign(matrix->panels * k * columns, 0.f);
  for (int64_t row = 0; row < n; ++row)
    for (int64_t i = 0; i < k; ++i)
      matrix->floats.data()[(row / columns * k + i) * columns + row % columns] = rows[row * k + i];
  return matrix;
}

void heedful_free(Matrix* matrix) { delete matrix; }

void heedful_linear(const Matrix* matrix, const float* bias, const float* x, int64_t count, float* out, int32_t threads) {
  static thread_local Vectors vectors;
  vectors.set(x, count, matrix->k, threads);
  vectors.multiply({matrix, bias}, out);
}

void Vectors::set(const float* x, int64_t count, int64_t k, int32_t threads) {
  x_ = x, count_ = count, k_ = k, threads_ = threads, quantized_ = rounded_ = false;
  stride_ = (k_ + PADDING - 1) / PADDING * PADDING;
}

void Vectors::quantize(const Kernels& kernel) {
  const int64_t size = (count_ + ROW_PADDING) * stride_;
  if ((int64_t)whole_.size() < size) whole_.resize(size);
  if ((int64_t)steps_.size() < count_) steps_.resize(count_), sums_.resize(count_);
  parallel(count_, threads_, count_ * k_ * COST_PER_NUMBER, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      steps_[i] = kernel.round(x_ + i * k_, k_, whole_.data() + i * stride_, &sums_[i]);
  });
  quantized_ = true;
}

void Vectors::round_halves(const Kernels& kernel) {
  const int64_t size = (count_ + ROW_PADDING) * stride_;
  if ((int64_t)halves_.size() < size) halves_.resize(size);
  parallel(count_, threads_, count_ * k_ * COST_PER_NUMBER, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) kernel.round_halves(x_ + i * k_, k_, halves_.data() + i * stride_);
  });
  rounded_ = true;
}

void Vectors::multiply(const Linear& linear, float* out) {
  const Matrix& matrix = *linear.weight;
  const Kernels& kernel = matrix.kernel;
  const bool is_int8 = !matrix.bytes.empty(), is_bfloat16 = !matrix.halves.empty();
  if (is_int8 && !quantized_) quantize(kernel);
  if (is_bfloat16 && !rounded_) round_halves(kernel);
  const int64_t columns = kernel.columns, n = matrix.n;
  parallel(matrix.panels, threads_, count_ * n * k_, [&](int64_t begin, int64_t end) {
    static thread_local std::vector<float> edge;  // output of the last panel, which may be too wide
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t first = panel * columns, wide = std::min(columns, n - first);
      const float* bias = linear.bias ? linear.bias + first : nullptr;
      float* place = out + first;
      int64_t stride = n;
      if (wide < columns) {
        edge.resize((count_ + 1) * columns);
        place = edge.data(), stride = columns;
        if (bias) {
          float* padded = edge.data() + count_ * columns;
          std::copy(bias, bias + wide, padded);
          bias = padded;
        }
      }
      if (is_int8)
        kernel.bytes(matrix.bytes.data() + first * matrix.quads() * 4, matrix.quads(), whole_.data(), stride_,
                     steps_.data(), sums_.data(), count_, matrix.scale.data() + first, bias, place, stride);
      else if (is_bfloat16)
        kernel.halves(matrix.halves.data() + first * matrix.pairs() * 2, matrix.pairs(), halves_.data(), stride_, count_,
                      bias, place, stride);
      else
        kernel.floats(matrix.floats.data() + first * k_, k_, x_, k_, count_, bias, place, stride);
      if (wide < columns)
        for (int64_t i = 0; i < count_; ++i) std::copy(place + i * stride, place + i * stride + wide, out + i * n + first);
    }
  });
}
