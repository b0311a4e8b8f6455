// Geometry and loops of two-dimensional convolution, shared by conv2d, its two gradients, conv2d_transpose
// and locally_connected2d.
//
// y[n][o][oh][ow] = sum over c, kh, kw of filter[o][c][kh][kw] * x[n][c0 + c][ih][iw] with
// ih = oh stride_h - pad_h + kh dilation_h (rows outside x are 0), c0 = first channel of o's group; iw
// likewise.
#pragma once

#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"
#include "trireme/tensor/walk.h"

namespace trireme::op::detail {

struct ConvGeometry {
  std::int64_t n, c, h, w;     // of x
  std::int64_t o, cg, kh, kw;  // of the filter; cg = c / groups
  std::int64_t oh, ow;         // of y
  std::int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;

  Shape in_shape() const { return {n, c, h, w}; }
  Shape out_shape() const { return {n, o, oh, ow}; }
  std::int64_t og() const { return o / groups; }
  bool has_channels() const { return cg > 0 && o > 0; }
  std::int64_t first_channel(std::int64_t out) const { return out / og() * cg; }
  // Multiplications and additions of each of the three passes: two per pair of an output and a tap that falls
  // inside the image.
  double flops() const;
};

// stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups.
std::vector<AttrSpec> window_attrs();
// The same and `method`; then `shape_attr` when it is not empty. For conv2d and its gradients.
std::vector<AttrSpec> conv_attrs(std::string_view shape_attr = {});
AttrSpec result_shape_attr(std::string_view name);
// The shared attributes of another node, without a shape.
Attrs conv_attrs_of(const Attrs& attrs);
// Positive strides, dilations and groups, no negative padding, all below 2^31; a method that has a kernel.
Status expect_window(const Attrs& attrs);
// Gradients of a product of x and filter, inputs 0 and 1, by the two ops that take (filter, dy) and (x, dy).
Grads conv_grads(GradBuilder& g, const OpDef& input_grad, const OpDef& filter_grad);
// Checks x [N,C,H,W], filter [O,C/groups,KH,KW] and the attributes; y is known to have a shape.
Result<ConvGeometry> conv_geometry(const TensorType& x, const TensorType& filter, const Attrs& attrs);
// Size of a side that `positions` taps `step` apart span; nothing when it is beyond 2^61.
std::optional<std::int64_t> span_of(std::int64_t positions, std::int64_t step);

// Positions p in [begin, end) with 0 <= origin + p * step < size, out of [0, limit).
struct Inside {
  std::int64_t begin, end;
};
inline Inside inside(std::int64_t origin, std::int64_t step, std::int64_t size, std::int64_t limit) {
  const std::int64_t begin = origin < 0 ? (step - 1 - origin) / step : 0;
  const std::int64_t end = origin < size ? std::min(limit, (size - 1 - origin) / step + 1) : 0;
  return {begin, std::max(begin, end)};
}

// Strides of a filter by the indices that choose one of its elements. conv2d has one filter for all positions
// of the output: its oh and ow are 0.
struct FilterStrides {
  std::int64_t oh, ow, o, c, kh, kw;
};
inline FilterStrides shared_filter(const Tensor& f) {
  return {0, 0, f.strides()[0], f.strides()[1], f.strides()[2], f.strides()[3]};
}

// The reference kernels. Each output element is one sum in Acc<T>, rounded once: over (c, kh, kw) for y, over
// (o, kh, kw) for dx, over (n, oh, ow) for the filter.
void conv_forward(const ConvGeometry& g, const Tensor& x, const Tensor& filter, const FilterStrides& f,
                  const Tensor& y);
void conv_input_grad(const ConvGeometry& g, const Tensor& filter, const FilterStrides& f, const Tensor& dy,
                     const Tensor& dx);
void conv_filter_grad(const ConvGeometry& g, const Tensor& x, const Tensor& dy, const Tensor& df);

}  // namespace trireme::op::detail
