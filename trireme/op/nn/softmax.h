// What softmax and log_softmax share: an axis, and rows of elements along it.
#pragma once

#include "trireme/op/detail/cut_graph.h"
#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"
#include "trireme/op/detail/math.h"
#include "trireme/tensor/walk.h"

namespace trireme::op::detail {

std::vector<AttrSpec> axis_attr();  // axis, default the last
Types infer_along_axis(TypeSpan in, const Attrs& attrs);
// Every dimension but the axis.
std::vector<LayoutOption> along_axis_layout(TypeSpan in, const Attrs& attrs);
// The axis too, rewritten.
std::vector<LayoutOption> softmax_layout(TypeSpan in, const Attrs& attrs);
// `per_element` operations for each element and `per_row` for each row; two folds and some steps deep.
cost::OpCost along_axis_cost(TypeSpan in, TypeSpan out, const Attrs& attrs, double per_element,
                             double per_row);

// What a position knows of rows that are cut along the axis: its elements less the row's maximum, and powers
// of them with their sum over the whole row. 16-bit floats are f32 here. A loss and its gradient build the
// same nodes.
struct CutRows {
  Value shifted, powers, total;
  Value top;  // the row's maximum
};
CutRows cut_rows(CutBuilder& b, Value x, int axis);

// Elements n of one row, `step` apart.
template <typename T>
struct Row {
  T* first;
  std::int64_t step, n;
  T& operator[](std::int64_t i) const { return first[i * step]; }
};

// Calls body(row of x, row of y) for every row along the axis that has elements.
template <typename T, typename Body>
void for_each_row(const Tensor& x, const Tensor& y, int axis, Body&& body) {
  const std::int64_t size = x.shape()[axis];
  Shape rows = x.shape();
  rows.set(axis, 1);
  const T* xs = x.data<T>();
  T* ys = y.data<T>();
  if (size == 0) return;
  walk_rows<2>(rows, {x.strides(), y.strides()}, [&](const auto& offset, const auto& stride, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      body(Row<const T>{xs + offset[0] + i * stride[0], x.strides()[idx(axis)], size},
           Row<T>{ys + offset[1] + i * stride[1], y.strides()[idx(axis)], size});
    }
  });
}

template <typename T>
Acc<T> largest(const Row<const T>& x) {
  using A = Acc<T>;
  A top = x[0];
  for (std::int64_t i = 1; i < x.n; ++i) {
    const A v = x[i];
    top = std::max(top, v);
  }
  return top;
}

// log(sum(exp(row))), stable: 11 n + 8 operations.
template <typename T>
Acc<T> log_sum_exp(const Row<const T>& x) {
  using A = Acc<T>;
  const A top = largest<T>(x);
  A total = 0;
  for (std::int64_t i = 0; i < x.n; ++i) {
    const A v = x[i];
    total += math::exp(v - top);
  }
  return top + math::log(total);
}

}  // namespace trireme::op::detail
