// Walks several strided views of one shape together, row by row, in row-major order of the shape.
//
// Dimensions that are laid out alike in every view are merged first, so contiguous views are one long row. A
// stride of 0 repeats an element (broadcasting). Offsets and strides are in elements.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "trireme/tensor/tensor.h"

namespace trireme {

using Strides = std::array<std::int64_t, kMaxRank>;

// Strides with which `t` is read as a view of `shape` under NumPy broadcasting (invariant: it broadcasts to
// it).
inline Strides broadcast_strides(const Tensor& t, const Shape& shape) {
  Strides s{};
  const int lead = shape.rank() - t.shape().rank();
  TR_CHECK(lead >= 0);
  for (int i = 0; i < t.shape().rank(); ++i) {
    const std::int64_t size = t.shape()[i];
    TR_CHECK(size == shape[lead + i] || size == 1);
    s[static_cast<std::size_t>(lead + i)] = size == 1 ? 0 : t.strides()[static_cast<std::size_t>(i)];
  }
  return s;
}

// Calls body(offsets, strides, n) for every row: view v has its elements at offsets[v] + i * strides[v], 0 <=
// i < n.
template <std::size_t N, typename Body>
void walk_rows(const Shape& shape, const std::array<Strides, N>& views, Body&& body) {
  // Merged dimensions, outermost first. dims[0] is the row when everything merges.
  std::array<std::int64_t, kMaxRank + 1> dims{};
  std::array<std::array<std::int64_t, N>, kMaxRank + 1> steps{};
  int rank = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 0) return;
    if (shape[d] == 1) continue;
    std::array<std::int64_t, N> step{};
    for (std::size_t v = 0; v < N; ++v) step[v] = views[v][static_cast<std::size_t>(d)];
    const auto last = static_cast<std::size_t>(rank - 1);
    bool merges = rank > 0;
    for (std::size_t v = 0; v < N && merges; ++v) merges = steps[last][v] == step[v] * shape[d];
    if (merges) {
      dims[last] *= shape[d];
      steps[last] = step;
    } else {
      dims[static_cast<std::size_t>(rank)] = shape[d];
      steps[static_cast<std::size_t>(rank)] = step;
      ++rank;
    }
  }
  if (rank == 0) {
    dims[0] = 1;
    rank = 1;
  }
  const auto inner = static_cast<std::size_t>(rank - 1);
  std::array<std::int64_t, N> offsets{};
  std::array<std::int64_t, kMaxRank + 1> index{};
  for (;;) {
    body(std::as_const(offsets), std::as_const(steps[inner]), dims[inner]);
    int d = rank - 2;
    for (; d >= 0; --d) {
      const auto i = static_cast<std::size_t>(d);
      for (std::size_t v = 0; v < N; ++v) offsets[v] += steps[i][v];
      if (++index[i] < dims[i]) break;
      for (std::size_t v = 0; v < N; ++v) offsets[v] -= steps[i][v] * dims[i];
      index[i] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace trireme
