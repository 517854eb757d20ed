// Thread pool; its threads wait for more work for a moment before they sleep.
#pragma once

#include <cstdint>

#ifndef HEEDFUL_MIN_WORK  // the fuzzer uses threads for the smallest work too
#define HEEDFUL_MIN_WORK (int64_t{1} << 21)
#define HEEDFUL_MIN_WORK_TO_WAKE (int64_t{1} << 25)
#endif
constexpr int64_t MIN_WORK = HEEDFUL_MIN_WORK;  // int8 products that are worth the use of waiting threads
constexpr int64_t MIN_WORK_TO_WAKE = HEEDFUL_MIN_WORK_TO_WAKE;  // and of sleeping threads
constexpr int64_t COST_PER_NUMBER = 32;  // int8 products that take as long as reading and writing a number

// Splits the range from 0 to count, calls part(data, begin, end) for each piece in up to `threads` threads, and waits.
// The caller does all the work if the threads work for another caller, or if they sleep and the work is small.
void run_parallel(int64_t count, int32_t threads, int64_t work, void (*part)(void*, int64_t, int64_t), void* data);

// The same for a function object with the arguments begin and end; the caller does small work alone.
template <class Part>
void parallel(int64_t count, int32_t threads, int64_t work, Part&& part) {
  if (work < MIN_WORK || threads < 2 || count < 2)
    part(int64_t{0}, count);
  else
    run_parallel(
        count, threads, work,
        [](void* data, int64_t begin, int64_t end) { (*static_cast<Part*>(data))(begin, end); }, &part);
}
