// The instructions of AMX in plain C++, to test products with tiles on processors without them.
#pragma once

#include <cstdint>
#include <cstring>

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbsud
#undef _tile_dpbf16ps

#define _tile_loadconfig(config) ((void)(config))
#define _tile_release() ((void)0)
#define _tile_zero(tile) (emulated::tiles[tile] = {})
#define _tile_loadd(tile, base, stride) emulated::load(tile, base, stride)
#define _tile_stored(tile, base, stride) emulated::store(tile, base, stride)
#define _tile_dpbsud(sums, a, b) emulated::multiply_int8(sums, a, b)
#define _tile_dpbf16ps(sums, a, b) emulated::multiply_bfloat16(sums, a, b)

namespace emulated {

constexpr int ROWS_OF_TILE = 16, BYTES_OF_ROW = 64;

struct TileData {
  uint8_t bytes[ROWS_OF_TILE][BYTES_OF_ROW];
};

inline thread_local TileData tiles[8];

inline void load(int tile, const void* base, int64_t stride) {
  for (int row = 0; row < ROWS_OF_TILE; ++row)
    std::memcpy(tiles[tile].bytes[row], (const uint8_t*)base + row * stride, BYTES_OF_ROW);
}

inline void store(int tile, void* base, int64_t stride) {
  for (int row = 0; row < ROWS_OF_TILE; ++row)
    std::memcpy((uint8_t*)base + row * stride, tiles[tile].bytes[row], BYTES_OF_ROW);
}

template <class Number>
Number get(int tile, int row, int index) {
  Number number;
  std::memcpy(&number, tiles[tile].bytes[row] + index * sizeof number, sizeof number);
  return number;
}

// sums[m, n] += sum of a[m, 4k + i] * b[k, 4n + i], with signed a and unsigned b.
inline void multiply_int8(int sums, int a, int b) {
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 16; ++n) {
      int32_t sum = get<int32_t>(sums, m, n);
      for (int k = 0; k < 16; ++k)
        for (int i = 0; i < 4; ++i) sum += get<int8_t>(a, m, 4 * k + i) * get<uint8_t>(b, k, 4 * n + i);
      std::memcpy(tiles[sums].bytes[m] + 4 * n, &sum, 4);
    }
}

inline float to_float(uint16_t half) {
  const uint32_t bits = (uint32_t)half << 16;
  float number;
  std::memcpy(&number, &bits, 4);
  return number;
}

// sums[m, n] += sum of a[m, 2k + i] * b[k, 2n + i].
inline void multiply_bfloat16(int sums, int a, int b) {
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 16; ++n) {
      float sum = get<float>(sums, m, n);
      for (int k = 0; k < 16; ++k)
        for (int i = 0; i < 2; ++i) sum += to_float(get<uint16_t>(a, m, 2 * k + i)) * to_float(get<uint16_t>(b, k, 2 * n + i));
      std::memcpy(tiles[sums].bytes[m] + 4 * n, &sum, 4);
    }
}

}  // namespace emulated
