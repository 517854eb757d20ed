// Memory for weights in large pages. Products of few vectors wait for their weights, and each small page costs a look-up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

// Returns uninitialised memory; it is freed when no pointer is left.
std::shared_ptr<void> allocate_weights(size_t bytes);

// Numbers of a fixed count.
template <class Number>
class Weights {
 public:
  void assign(size_t count, Number value) {
    numbers_ = std::static_pointer_cast<Number>(allocate_weights(count * sizeof(Number)));
    std::fill_n(numbers_.get(), count, value);
  }

  bool empty() const { return !numbers_; }
  Number* data() const { return numbers_.get(); }

 private:
  std::shared_ptr<Number> numbers_;
};
