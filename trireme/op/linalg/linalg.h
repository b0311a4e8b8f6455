// What ops on matrices share. A tensor of rank above 2 is a batch of matrices: the last two dimensions.
#pragma once

#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"
#include "trireme/op/detail/math.h"
#include "trireme/tensor/walk.h"

namespace trireme::op::detail {

// The dimensions before the last two.
Shape batch_of(const Shape& s);
// Floating square matrices, at least one dimension of each kind.
Status expect_square(std::string_view what, const TensorType& t);
// Batch dimensions may be cut, rows and columns not.
std::vector<LayoutOption> batch_layout(TypeSpan in, const Attrs& attrs);

// Row-major n x n scratch for `count` matrices of the type that elements of `dtype` compute in.
std::size_t square_bytes(const TensorType& x, int count);

// Copies matrix `from` (strided) to `to` (row-major) in the computing type.
template <typename T>
void load_square(const T* from, std::int64_t row, std::int64_t col, std::int64_t n, Acc<T>* to) {
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) to[i * n + j] = from[i * row + j * col];
}

// Row of the largest element at or below the diagonal of column k: 1 + 2 (n - 1 - k) flops.
template <typename A>
std::int64_t pivot_row(const A* m, std::int64_t n, std::int64_t k) {
  std::int64_t best = k;
  A largest = math::abs(m[k * n + k]);
  for (std::int64_t i = k + 1; i < n; ++i) {
    const A size = math::abs(m[i * n + k]);
    if (size > largest) {
      largest = size;
      best = i;
    }
  }
  return best;
}

}  // namespace trireme::op::detail
