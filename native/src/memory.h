// Memory for weights in huge pages. Products of few vectors are limited by memory, and each small page costs a TLB miss.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

// Returns uninitialised memory in a shared block, which is freed when none of it is in use.
std::shared_ptr<void> allocate_weight_memory(size_t bytes);

// Array of a fixed length.
template <class Number>
class Weights {
 public:
  void assign(size_t count, Number value) {
    numbers_ = std::static_pointer_cast<Number>(allocate_weight_memory(count * sizeof(Number)));
    std::fill_n(numbers_.get(), count, value);
  }

  bool empty() const { return !numbers_; }
  Number* data() const { return numbers_.get(); }

 private:
  std::shared_ptr<Number> numbers_;
};
