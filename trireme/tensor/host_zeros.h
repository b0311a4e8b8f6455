// Memory of zeros that costs nothing until it is touched: who allocates on the loop must not stand still
// there.
#pragma once

#include <utility>

#include "trireme/tensor/tensor.h"

namespace trireme {

// Memory of cpu_device(), 64-byte aligned. Large ones are pages that the system clears when they are first
// touched: gigabytes in no time.
Result<Buffer> allocate_host_zeros(std::size_t bytes);

// Makes memory of the host zeros; of its whole pages none is left in memory until they are touched again.
// `bytes` may be any. Of memory that is shared with other processes nobody uses any meanwhile.
void give_back_pages(std::byte* first, std::size_t bytes);

// Memory whose pages were given back, which is not counted (host_memory.h) until it is taken again, at the
// latest when this ends.
class GivenPages {
 public:
  GivenPages() = default;
  GivenPages(GivenPages&& other) noexcept : bytes_(std::exchange(other.bytes_, 0)) {}
  GivenPages& operator=(GivenPages&&) = delete;
  ~GivenPages() { take_again(); }

  // Further memory.
  void give_back(std::byte* first, std::size_t bytes);
  // Memory that nobody has touched yet is only counted off.
  void leave(std::size_t bytes);
  void take_again();
  bool is_empty() const { return bytes_ == 0; }

 private:
  std::size_t bytes_ = 0;
};

// For memory that is often given back: it comes in large pages, where the system has them, so that few
// accesses wait for the system.
void prefer_large_pages(std::byte* first, std::size_t bytes);

// A tensor of zeros on a device of the host or a phantom one.
Result<Tensor> allocate_zeros(Device& device, const TensorType& type);

}  // namespace trireme
