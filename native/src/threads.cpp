#include "threads.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace {

constexpr int PATIENCE = 20000;  // iterations of a waiting thread before it sleeps: about the duration of a step

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class ThreadPool {
 public:
  bool begin(int64_t work) {
    if (busy_.exchange(true)) return false;
    if (work >= MIN_WORK_TO_WAKE || (!threads_.empty() && !sleeping_.load())) return true;
    busy_.store(false);
    return false;
  }

  void run(int64_t count, int32_t parts, void (*part)(void*, int64_t, int64_t), void* data) {
    while ((int32_t)threads_.size() < parts - 1) {
      const int32_t number = (int32_t)threads_.size() + 1;
      threads_.emplace_back([this, number, seen = turn_.load()] { work(number, seen); });
    }
    part_ = part, data_ = data, count_ = count, parts_ = parts;
    left_.store((int32_t)threads_.size());
    {
      std::lock_guard<std::mutex> lock(asleep_);
      turn_.fetch_add(1);
    }
    if (sleeping_.load()) wake_.notify_all();
    run_piece(0);
    for (int i = 0; left_.load(); ++i)
      if (i < PATIENCE)
        pause();
      else
        std::this_thread::yield();
    busy_.store(false);
  }

 private:
  void run_piece(int32_t number) {
    if (number < parts_) {
      int64_t begin = count_ * number / parts_, end = count_ * (number + 1) / parts_;
      if (begin < end) part_(data_, begin, end);
    }
  }

  void work(int32_t number, uint64_t seen) {
    for (;;) {
      for (int i = 0; turn_.load() == seen && i < PATIENCE; ++i) pause();
      if (turn_.load() == seen) {
        std::unique_lock<std::mutex> lock(asleep_);
        sleeping_.fetch_add(1);
        wake_.wait(lock, [&] { return turn_.load() != seen; });
        sleeping_.fetch_sub(1);
      }
      ++seen;
      run_piece(number);
      left_.fetch_sub(1);
    }
  }

  std::vector<std::thread> threads_;
  std::mutex asleep_;
  std::condition_variable wake_;
  std::atomic<bool> busy_{false};
  std::atomic<uint64_t> turn_{0};
  std::atomic<int32_t> left_{0}, sleeping_{0};
  void (*part_)(void*, int64_t, int64_t) = nullptr;
  void* data_ = nullptr;
  int64_t count_ = 0;
  int32_t parts_ = 0;
};

// One pool for each process: a child has none of the parent's threads, and does not touch the parent's pool.
ThreadPool* get_pool() {
  static std::mutex guard;
  static ThreadPool* pool = nullptr;
  static pid_t owner = 0;
  std::lock_guard<std::mutex> lock(guard);
  if (owner != getpid()) pool = new ThreadPool, owner = getpid();
  return pool;
}

}  // namespace

void run_parallel(int64_t count, int32_t threads, int64_t work, void (*part)(void*, int64_t, int64_t), void* data) {
  ThreadPool* pool = get_pool();
  if (!pool->begin(work)) return part(data, 0, count);
  pool->run(count, threads < count ? threads : (int32_t)count, part, data);
}
