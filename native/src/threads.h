// Work that is shared by a few threads, which wait for more of it for a moment before they sleep.
#pragma once

#include <cstdint>

// Calls part(data, begin, end) for pieces that together are 0 to count, in up to `threads` threads, and waits for them.
// Whoever comes while the threads are at work for somebody else does its work alone.
void share(int64_t count, int32_t threads, void (*part)(void*, int64_t, int64_t), void* data);

// The same for anything that can be called with begin and end; by the caller alone where the work is not worth more.
template <class Part>
void parallel(int64_t count, int32_t threads, bool worth, Part&& part) {
  if (!worth || threads < 2 || count < 2)
    part(int64_t{0}, count);
  else
    share(count, threads, [](void* data, int64_t begin, int64_t end) { (*static_cast<Part*>(data))(begin, end); }, &part);
}
