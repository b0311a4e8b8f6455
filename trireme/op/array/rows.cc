// The rows that indices name: what gather reads and scatter_add writes.
#include "trireme/op/array/array.h"

namespace trireme::op::detail {

Result<Shape> gathered_shape(const Shape& x, int axis, const Shape& indices) {
  Ints dims = dims_of(x);
  dims.erase(dims.begin() + axis);
  const auto at = indices.dims();
  dims.insert(dims.begin() + axis, at.begin(), at.end());
  return Shape::checked(dims);
}

RowsView rows_view(const Tensor& x, int axis, const Tensor& indices, const Tensor& y) {
  RowsView view{.rest = {}, .rows = x.shape()[axis], .x_row = x.strides()[idx(axis)]};
  Ints rest;
  for (int d = 0; d < x.shape().rank(); ++d) {
    if (d == axis) continue;
    view.x_rest[rest.size()] = x.strides()[idx(d)];
    view.y_rest[rest.size()] = y.strides()[idx(d < axis ? d : d - 1 + indices.shape().rank())];
    rest.push_back(x.shape()[d]);
  }
  view.rest = Shape(rest);
  return view;
}

void for_each_index(const Tensor& indices, const Tensor& y, int axis,
                    const std::function<void(std::int64_t, std::int64_t)>& body) {
  Strides y_strides{};
  for (int d = 0; d < indices.shape().rank(); ++d) y_strides[idx(d)] = y.strides()[idx(axis + d)];
  dispatch_index(indices.dtype(), [&]<typename Index>() {
    const Index* at = indices.data<Index>();
    walk_rows<2>(indices.shape(), {indices.strides(), y_strides},
                 [&](const auto& offset, const auto& stride, std::int64_t n) {
                   for (std::int64_t i = 0; i < n; ++i)
                     body(at[offset[0] + i * stride[0]], offset[1] + i * stride[1]);
                 });
  });
}

}  // namespace trireme::op::detail
