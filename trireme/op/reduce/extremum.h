// What max and min share, and what argmax and argmin do.
#pragma once

#include "trireme/op/detail/math.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::op::detail {

// ---- Of values, over any dimensions
Types infer_extremum(TypeSpan in, const Attrs& attrs);  // at least one element per result
Result<Grads> extremum_grad(GradBuilder& g);            // ties share it evenly

// ---- Of indices, along one dimension: the first of ties, the first NaN if any
std::vector<AttrSpec> arg_attrs();  // axis, keep_dims
Types infer_arg(TypeSpan in, const Attrs& attrs);
std::vector<LayoutOption> arg_layout(TypeSpan in, const Attrs& attrs);
cost::OpCost arg_cost(TypeSpan in, TypeSpan out, const Attrs& attrs);

// `better(v, m)`: v replaces the best so far, m.
template <typename Better>
void run_arg(KernelArgs& a, Better better) {
  const Tensor& x = a.in(0);
  const int axis = *resolve_axis("axis", a.attrs.get_int("axis"), x.type());
  const std::int64_t size = x.shape()[axis], step = x.strides()[idx(axis)];
  Shape outer = x.shape();
  outer.set(axis, 1);
  dispatch_numeric(x.dtype(), [&]<typename T>() {
    const T* xs = x.data<T>();
    auto* out = a.out(0).data<std::int64_t>();
    walk_rows<2>(outer, {x.strides(), row_major_strides(outer)},
                 [&](const auto& offset, const auto& stride, std::int64_t n) {
                   for (std::int64_t i = 0; i < n; ++i) {
                     const T* row = xs + offset[0] + i * stride[0];
                     std::int64_t best = 0;
                     for (std::int64_t k = 1; k < size; ++k) {
                       const Acc<T> m = row[best * step], v = row[k * step];
                       if (!math::isnan(m) && (better(v, m) || math::isnan(v))) best = k;
                     }
                     out[offset[1] + i * stride[1]] = best;
                   }
                 });
  });
}

}  // namespace trireme::op::detail
