#include "memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <mutex>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define CHECKED  // each allocation gets memory of its own, so that the sanitizer sees its limits
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHECKED
#endif
#endif

namespace {

constexpr size_t PAGE = 1 << 21, BLOCK = 32 * PAGE, LINE = 64;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Memory that starts with a large page. The system provides pages when they are first written, so unused ones cost
// nothing.
class Block {
 public:
  explicit Block(size_t bytes) : mapped_(bytes + PAGE) {
    start_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start_ == MAP_FAILED) throw std::bad_alloc();
    memory = (char*)round_up((uintptr_t)start_, PAGE), left = bytes;
#ifdef MADV_HUGEPAGE
    madvise(memory, bytes, MADV_HUGEPAGE);  // without large pages, small ones do
#endif
  }
  Block(const Block&) = delete;
  ~Block() { munmap(start_, mapped_); }

  char* memory;  // the part that is free
  size_t left;

 private:
  void* start_;
  size_t mapped_;
};

}  // namespace

std::shared_ptr<void> allocate_weight_memory(size_t bytes) {
#ifdef CHECKED
  return {::operator new(bytes), [](void* memory) { ::operator delete(memory); }};
#else
  static std::mutex mutex;
  static std::weak_ptr<Block> newest;
  const std::lock_guard<std::mutex> lock(mutex);
  const size_t size = round_up(std::max(bytes, LINE), LINE);
  std::shared_ptr<Block> block = newest.lock();
  if (!block || block->left < size) newest = block = std::make_shared<Block>(round_up(std::max(size, BLOCK), PAGE));
  void* memory = block->memory;
  block->memory += size, block->left -= size;
  return {block, memory};
#endif
}
