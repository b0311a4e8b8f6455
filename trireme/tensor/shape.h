// Shape: up to 8 dimensions, zero-sized allowed, held inline. TensorType: dtype and shape, what inference
// computes with.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "trireme/base/status.h"
#include "trireme/tensor/dtype.h"

namespace trireme {

inline constexpr int kMaxRank = 8;

// Stands for a batch size that is not known yet, in shapes of graphs that are templates (graph: specialise).
// A prime beyond real sizes, so that multiples of it are recognised: sizes print as "?" and "4*?". Nothing is
// ever allocated or run with it.
inline constexpr std::int64_t kUnknownDim = 2147483647;

class Shape {
 public:
  Shape() = default;  // a scalar
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims);  // dims >= 0 and at most kMaxRank of them: invariants

  // For dimensions from users: rejects negative sizes, too many dimensions and element counts beyond 2^59
  // (2^62 bytes).
  static Result<Shape> checked(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
  std::int64_t dim(int i) const { return (*this)[i < 0 ? i + rank_ : i]; }
  void set(int i, std::int64_t size) { dims_[static_cast<std::size_t>(i)] = size; }
  std::span<const std::int64_t> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }
  std::int64_t num_elems() const;
  std::string to_string() const;  // "[32, 1, 28, 28]"

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && a.dims_ == b.dims_;  // unused dims are 0
  }

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// Row-major strides in elements.
std::array<std::int64_t, kMaxRank> row_major_strides(const Shape& shape);

// NumPy broadcasting of two shapes.
Result<Shape> broadcast_shapes(const Shape& a, const Shape& b);

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  std::size_t num_bytes() const { return static_cast<std::size_t>(shape.num_elems()) * dtype_size(dtype); }
  std::string to_string() const;                           // "f32[32, 10]"
  static Result<TensorType> parse(std::string_view text);  // what to_string gives
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

}  // namespace trireme
