// Tensor: a typed, strided view of a Buffer. Cheap to copy; copies share the memory.
#pragma once

#include <array>
#include <cstdint>
#include <new>
#include <span>

#include "trireme/tensor/device.h"
#include "trireme/tensor/shape.h"

namespace trireme {

class Tensor {
 public:
  Tensor() = default;
  // Row-major view of `buffer` from byte `offset`; the buffer must be large enough (invariant).
  Tensor(Buffer buffer, TensorType type, std::size_t offset = 0);
  static Result<Tensor> allocate(Device& device, const TensorType& type);
  template <typename T>
  static Tensor from(std::span<const T> values, const Shape& shape);  // copies; throws std::bad_alloc

  bool is_null() const { return buffer_.is_null(); }
  bool is_phantom() const { return buffer_.is_phantom(); }
  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  const std::array<std::int64_t, kMaxRank>& strides() const { return strides_; }  // in elements
  bool is_contiguous() const;
  const Buffer& buffer() const { return buffer_; }
  std::size_t offset_bytes() const { return offset_; }

  std::byte* raw() const { return buffer_.data() ? buffer_.data() + offset_ : nullptr; }
  template <typename T>
  T* data() const {
    TR_CHECK(DTypeOf<T>::value == type_.dtype, "tensor of {} read as another type", dtype_name(type_.dtype));
    return reinterpret_cast<T*>(raw());
  }
  // Elements of a contiguous tensor with storage.
  template <typename T>
  std::span<T> values() const {
    TR_CHECK(is_contiguous() && !is_phantom());
    return {data<T>(), static_cast<std::size_t>(shape().num_elems())};
  }

  // Views.
  Tensor slice(int dim, std::int64_t begin, std::int64_t end) const;
  Tensor transpose(std::span<const int> order) const;
  Result<Tensor> reshape(const Shape& shape) const;  // only contiguous tensors

 private:
  Buffer buffer_;
  TensorType type_;
  std::size_t offset_ = 0;
  std::array<std::int64_t, kMaxRank> strides_{};
};

// Row-major copy of any strided host tensor into contiguous host memory.
void copy_to_contiguous(const Tensor& from, const Tensor& to);

template <typename T>
Tensor Tensor::from(std::span<const T> values, const Shape& shape) {
  TR_CHECK(static_cast<std::int64_t>(values.size()) == shape.num_elems());
  Result<Tensor> made = allocate(cpu_device(), {DTypeOf<T>::value, shape});
  if (!made.ok()) throw std::bad_alloc();
  Tensor t = *std::move(made);
  for (std::size_t i = 0; i < values.size(); ++i) t.data<T>()[i] = values[i];
  return t;
}

}  // namespace trireme
