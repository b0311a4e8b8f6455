// Arrays in a kernel's workspace, and copies of tensors into and out of them.
#pragma once

#include <algorithm>

#include "trireme/op/sequence/dual.h"
#include "trireme/tensor/walk.h"

namespace trireme::op::detail {

// Hands out arrays of N from a workspace. Without one it only counts, so the code that lays out the arrays of
// a kernel also says how large its workspace is.
template <typename N>
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(std::span<std::byte> workspace) : base_(reinterpret_cast<N*>(workspace.data())) {}
  N* take(std::int64_t count) {
    N* array = base_ == nullptr ? nullptr : base_ + used_;
    used_ += count;
    return array;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(used_) * sizeof(N); }

 private:
  N* base_ = nullptr;
  std::int64_t used_ = 0;
};

// The elements of `from` in row-major order, as plain numbers or as values of dual ones.
template <typename T, typename N>
void load(const Tensor& from, N* to) {
  const T* values = from.data<T>();
  walk_rows<2>(from.shape(), {from.strides(), row_major_strides(from.shape())},
               [&](const auto& offset, const auto& stride, std::int64_t n) {
                 for (std::int64_t i = 0; i < n; ++i)
                   to[offset[1] + i * stride[1]] = N(Acc<T>(values[offset[0] + i * stride[0]]));
               });
}
template <typename T, typename N>
void load_tangent(const Tensor& from, N* to) {
  const T* values = from.data<T>();
  walk_rows<2>(from.shape(), {from.strides(), row_major_strides(from.shape())},
               [&](const auto& offset, const auto& stride, std::int64_t n) {
                 for (std::int64_t i = 0; i < n; ++i)
                   to[offset[1] + i * stride[1]].tangent = values[offset[0] + i * stride[0]];
               });
}
// Into `count` elements from `to`: plain numbers, or the tangents of dual ones.
template <typename T, typename N>
void store(const N* from, T* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (kIsDual<N>) {
      to[i] = static_cast<T>(from[i].tangent);
    } else {
      to[i] = static_cast<T>(from[i]);
    }
  }
}
template <typename N>
void clear(N* array, std::int64_t count) {
  std::fill(array, array + count, N(0));
}

}  // namespace trireme::op::detail
