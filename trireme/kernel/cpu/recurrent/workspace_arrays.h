// WorkspaceArrays: hands out arrays from a kernel's workspace, each from a cache line on. Without a workspace
// it only counts, so the code that lays out the arrays of a kernel also says how large its workspace is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::kernel {

class WorkspaceArrays {
 public:
  explicit WorkspaceArrays(std::byte* base = nullptr) : base_(base) {}
  template <typename T = float>
  T* take(std::int64_t elems) {
    std::byte* const at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (static_cast<std::size_t>(elems) * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(at);
  }
  std::size_t bytes() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

}  // namespace trireme::kernel
