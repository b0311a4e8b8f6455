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

// Splits x's dimensions into those that stay and those that are reduced.
void split_axes(const Tensor& x, const Axes& axes, Shape& kept, Strides& kept_strides, Shape& gone,
                Strides& gone_strides);

// The value `v` of the reduced shape (dy, y), as a view of x's shape: reshape with size-1 axes, then
// broadcast.
Value broadcast_reduced(GradBuilder& g, Value v);

// out[o] = finish(the fold of x's elements that fall on o, from `first`, in index order), folded in type A.
template <typename T, typename A, typename Out, typename Fold, typename Finish>
void reduce(const Tensor& x, const Axes& axes, Out* out, A first, Fold fold, Finish finish) {
  Shape kept, gone;  // the dimensions that stay and those that are folded, each in x's order
  Strides kept_strides{}, gone_strides{};
  split_axes(x, axes, kept, kept_strides, gone, gone_strides);
  const T* xs = x.data<T>();
  walk_rows<2>(kept, {kept_strides, row_major_strides(kept)},
               [&](const auto& offset, const auto& stride, std::int64_t n) {
                 for (std::int64_t o = 0; o < n; ++o) {
                   const T* base = xs + offset[0] + o * stride[0];
                   A total = first;
                   walk_rows<1>(gone, {gone_strides}, [&](const auto& at, const auto& step, std::int64_t m) {
                     for (std::int64_t i = 0; i < m; ++i)
                       total = fold(total, static_cast<A>(base[at[0] + i * step[0]]));
                   });
                   out[offset[1] + o * stride[1]] = finish(total);
                 }
               });
}

}  // namespace trireme::op::detail
