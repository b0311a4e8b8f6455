// What reductions share: axes, inference and the walk from input elements to the output element they fold
// into.
#pragma once

#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"
#include "trireme/tensor/walk.h"

namespace trireme::op::detail {

// Which dimensions of x are reduced.
struct Axes {
  std::array<bool, kMaxRank> reduced{};
  std::int64_t count = 1;  // elements of x per element of the result
};

std::vector<AttrSpec> reduce_attrs();  // axes, keep_dims
Result<Axes> resolve_axes(const TensorType& x, const Attrs& attrs);
Types infer_reduce(const TensorType& x, const Attrs& attrs);
// `reduced_output`: what cutting a reduced dimension makes of the output (kPartial), or nothing when it
// cannot be cut.
std::vector<LayoutOption> reduce_layout(TypeSpan in, const Attrs& attrs, std::optional<int> reduced_output);

// The value `v` of the reduced shape (dy, y), as a view of x's shape: reshape with size-1 axes, then
// broadcast.
Value broadcast_reduced(GradBuilder& g, Value v);

// out[o] = fold(out[o], x[i]) for every i, in row-major order of x: so every output element is folded in
// index order.
template <typename T, typename Fold>
void reduce(const Tensor& x, const Axes& axes, T* out, Fold fold) {
  Strides target{};
  std::int64_t step = 1;
  for (int d = x.shape().rank() - 1; d >= 0; --d) {
    if (axes.reduced[idx(d)]) continue;
    target[idx(d)] = step;
    step *= x.shape()[d];
  }
  const T* xs = x.data<T>();
  walk_rows<2>(x.shape(), {x.strides(), target}, [&](const auto& offset, const auto& stride, std::int64_t n) {
    const T* p = xs + offset[0];
    T* q = out + offset[1];
    if (stride[1] == 0) {
      T total = *q;
      for (std::int64_t i = 0; i < n; ++i) total = fold(total, p[i * stride[0]]);
      *q = total;
    } else {
      for (std::int64_t i = 0; i < n; ++i) q[i * stride[1]] = fold(q[i * stride[1]], p[i * stride[0]]);
    }
  });
}

}  // namespace trireme::op::detail
