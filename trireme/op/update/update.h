// What ops that write their inputs share.
#pragma once

#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"
#include "trireme/tensor/walk.h"

namespace trireme::op::detail {

// target[i] = f(target[i], value[i]), in place. An f that takes its first argument by reference and ignores
// it does not read the target, which may hold no value yet.
template <typename T, typename F>
void update(const Tensor& target, const Tensor& value, F f) {
  T* ts = target.data<T>();
  const T* vs = value.data<T>();
  walk_rows<2>(target.shape(), {target.strides(), value.strides()},
               [&](const auto& offset, const auto& stride, std::int64_t n) {
                 T* t = ts + offset[0];
                 const T* v = vs + offset[1];
                 for (std::int64_t i = 0; i < n; ++i)
                   t[i * stride[0]] = f(t[i * stride[0]], v[i * stride[1]]);
               });
}

// Inputs that are cut with the parameter, along any of its dimensions; the last `num_scalars` are replicated.
std::vector<LayoutOption> update_layout(TypeSpan in, std::size_t num_scalars);
// A finite attribute of at least 0.
Status expect_not_negative(std::string_view attr, double value);

}  // namespace trireme::op::detail
