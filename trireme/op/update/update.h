// What ops that write their inputs share.
//
// Inputs of an optimiser step: param, its states, grad, lr and, where the formula counts, step. States and
// grad have the type of param; a state that the attributes leave unused has the shape [0] instead. lr is a
// scalar of param's dtype or of f32 (16-bit learning rates are too coarse). step is an i64 scalar that counts
// the steps of this parameter from 1; less is taken as 1. Scalar factors are formed in f64 and rounded once.
#pragma once

#include <array>
#include <initializer_list>

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

// f(at) for every element of param = input 0: at[k] points to that element of input k, and to nothing where
// input k is an unused state.
template <typename T, std::size_t N, typename F>
void update_together(const KernelArgs& a, F f) {
  const Shape& shape = a.in(0).shape();
  std::array<Strides, N> strides{};
  std::array<T*, N> base{};
  for (std::size_t k = 0; k < N; ++k) {
    const Tensor& t = a.inputs[k];
    if (t.shape() != shape) continue;
    strides[k] = t.strides();
    base[k] = t.data<T>();
  }
  walk_rows<N>(shape, strides, [&](const auto& offset, const auto& stride, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      std::array<T*, N> at{};
      for (std::size_t k = 0; k < N; ++k) {
        if (base[k] != nullptr) at[k] = base[k] + offset[k] + i * stride[k];
      }
      f(at);
    }
  });
}

struct State {
  std::string_view name;
  bool used = true;
};
// param, states, grad, lr and, if it is there, step.
Types infer_update(TypeSpan in, std::initializer_list<State> states);
// A finite attribute of at least 0; one in [0, 1).
Status expect_not_negative(const Attrs& attrs, std::initializer_list<std::string_view> names);
Status expect_share(const Attrs& attrs, std::initializer_list<std::string_view> names);

double rate_of(const Tensor& lr);
std::int64_t step_of(const Tensor& step);  // at least 1

// `flops` per element of param; inputs 1...num_states are written too.
cost::OpCost update_cost(TypeSpan in, TypeSpan out, double flops, std::size_t num_states);
// Any dimension of param; what has its shape is cut with it, the rest is replicated.
std::vector<LayoutOption> update_layout(TypeSpan in, const Attrs& attrs);

}  // namespace trireme::op::detail
