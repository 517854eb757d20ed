// Work that is shared by a few threads, which wait for more of it for a moment before they sleep.
#pragma once

#include <cstdint>

#ifndef HEEDFUL_WORTH  // the fuzzer shares the smallest work too
#define HEEDFUL_WORTH (int64_t{1} << 21)
#define HEEDFUL_WAKES (int64_t{1} << 25)
#endif
constexpr int64_t WORTH = HEEDFUL_WORTH;  // products of bytes that are worth a thread that waits for work
constexpr int64_t WAKES = HEEDFUL_WAKES;  // and one that sleeps
constexpr int64_t OF_A_NUMBER = 32;          // products that take as long as passing over a number does

// Calls part(data, begin, end) for pieces that together are 0 to count, in up to `threads` threads, and waits for them.
// Whoever comes while the threads are at work for somebody else, or asleep and the work small, does it alone.
void share(int64_t count, int32_t threads, int64_t work, void (*part)(void*, int64_t, int64_t), void* data);

// The same for anything that can be called with begin and end; by the caller alone where the work is not worth more.
template <class Part>
void parallel(int64_t count, int32_t threads, int64_t work, Part&& part) {
  if (work < WORTH || threads < 2 || count < 2)
    part(int64_t{0}, count);
  else
    share(
        count, threads, work,
        [](void* data, int64_t begin, int64_t end) { (*static_cast<Part*>(data))(begin, end); }, &part);
}
