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
Types infer_reduce(const TensorType& x, const Attrs& attrs);  // any dtype
Types infer_reduce_numeric(TypeSpan in, const Attrs& attrs);
Types infer_reduce_float(TypeSpan in, const Attrs& attrs);
Types infer_reduce_bool(TypeSpan in, const Attrs& attrs);

// Dimensions that stay may be cut; a cut along a reduced one is not offered, gives partial sums or maxima, or
// is rewritten by OpDef::cut, which yields `reduced_output`.
std::vector<LayoutOption> reduce_layout(TypeSpan in, const Attrs& attrs);
std::vector<LayoutOption> partial_sums_layout(TypeSpan in, const Attrs& attrs);
std::vector<LayoutOption> partial_maxima_layout(TypeSpan in, const Attrs& attrs);
std::vector<LayoutOption> rewritten_layout(TypeSpan in, const Attrs& attrs, int reduced_output);
// `flops_in` per element of x, folded by trees, then `flops_out` per element of the result.
cost::OpCost reduce_cost(TypeSpan in, TypeSpan out, double flops_in, double flops_out);

// Splits x's dimensions into those that stay and those that are reduced.
void split_axes(const Tensor& x, const Axes& axes, Shape& kept, Strides& kept_strides, Shape& gone,
                Strides& gone_strides);

// The value `v` of the reduced shape (dy, y), as a view of x's shape: reshape with size-1 axes, then
// broadcast.
Value broadcast_reduced(GradBuilder& g, Value v);

// For every element of the result, in row-major order: out[o] = result(visit), where visit(f) calls f for
// x's elements that fall on o, in index order, as Acc<T>.
template <typename T, typename Out, typename F>
void reduce_each(const Tensor& x, const Axes& axes, Out* out, F result) {
  Shape kept, gone;  // the dimensions that stay and those that are folded, each in x's order
  Strides kept_strides{}, gone_strides{};
  split_axes(x, axes, kept, kept_strides, gone, gone_strides);
  const T* xs = x.data<T>();
  walk_rows<2>(kept, {kept_strides, row_major_strides(kept)},
               [&](const auto& offset, const auto& stride, std::int64_t n) {
                 for (std::int64_t o = 0; o < n; ++o) {
                   const T* base = xs + offset[0] + o * stride[0];
                   out[offset[1] + o * stride[1]] = result([&](auto&& f) {
                     walk_rows<1>(gone, {gone_strides},
                                  [&](const auto& at, const auto& step, std::int64_t m) {
                                    for (std::int64_t i = 0; i < m; ++i)
                                      f(static_cast<Acc<T>>(base[at[0] + i * step[0]]));
                                  });
                   });
                 }
               });
}

// out[o] = finish(the fold of x's elements that fall on o, from `first`, in index order), folded in type A.
template <typename T, typename A, typename Out, typename Fold, typename Finish>
void reduce(const Tensor& x, const Axes& axes, Out* out, A first, Fold fold, Finish finish) {
  reduce_each<T>(x, axes, out, [&](auto&& visit) {
    A total = first;
    visit([&](A v) { total = fold(total, v); });
    return finish(total);
  });
}

// The same, stored in x's dtype.
template <typename T, typename Fold>
void reduce_to(KernelArgs& a, Acc<T> first, Fold fold) {
  reduce<T>(a.in(0), *resolve_axes(a.in(0).type(), a.attrs), a.out(0).data<T>(), first, fold,
            [](Acc<T> total) { return static_cast<T>(total); });
}

}  // namespace trireme::op::detail
