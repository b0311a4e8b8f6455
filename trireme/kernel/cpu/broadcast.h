// Two operands along the elements of a result, by NumPy's rule of broadcasting.
#pragma once

#include <array>

#include "trireme/tensor/tensor.h"

namespace trireme::kernel {

// Dimensions of the result merged where both operands allow it. Along the last one an operand lies dense
// (step 1) or stays at one element (step 0).
struct Broadcast {
  int rank = 0;
  std::array<std::int64_t, kMaxRank> sizes{}, a{}, b{};  // sizes, and steps of the operands in elements

  // Operands are dense and row-major.
  Broadcast(const Shape& shape_a, const Shape& shape_b, const Shape& result);

  // Calls fn(offset in a, offset in b, offset in the result, n) for runs along the last dimension that cover
  // the result's elements [begin, end).
  template <typename Fn>
  void for_runs(std::int64_t begin, std::int64_t end, const Fn& fn) const {
    if (begin >= end) return;
    const auto last = static_cast<std::size_t>(rank - 1);
    std::array<std::int64_t, kMaxRank> index{};
    std::int64_t rest = begin, at_a = 0, at_b = 0;
    for (std::size_t d = last + 1; d-- > 0;) {
      index[d] = rest % sizes[d];
      rest /= sizes[d];
      at_a += index[d] * a[d];
      at_b += index[d] * b[d];
    }
    for (std::int64_t at = begin;;) {
      const std::int64_t n = std::min(sizes[last] - index[last], end - at);
      fn(at_a, at_b, at, n);
      at += n;
      if (at >= end) return;
      at_a -= index[last] * a[last];
      at_b -= index[last] * b[last];
      index[last] = 0;
      for (std::size_t d = last; d-- > 0;) {
        at_a += a[d];
        at_b += b[d];
        if (++index[d] < sizes[d]) break;
        at_a -= sizes[d] * a[d];
        at_b -= sizes[d] * b[d];
        index[d] = 0;
      }
    }
  }
};

}  // namespace trireme::kernel
