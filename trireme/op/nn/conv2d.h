// Geometry of two-dimensional convolution, shared by conv2d and its two gradients.
//
// y[n][o][oh][ow] = sum over c, kh, kw of filter[o][c][kh][kw] * x[n][c0 + c][ih][iw] with
// ih = oh stride_h - pad_h + kh dilation_h (rows outside x are 0), c0 = first channel of o's group; iw
// likewise.
#pragma once

#include <algorithm>

#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"
#include "trireme/tensor/walk.h"

namespace trireme::op::detail {

struct ConvGeometry {
  std::int64_t n, c, h, w;     // of x
  std::int64_t o, cg, kh, kw;  // of the filter; cg = c / groups
  std::int64_t oh, ow;         // of y
  std::int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;

  Shape out_shape() const { return {n, o, oh, ow}; }
  std::int64_t first_channel(std::int64_t out) const { return out / (o / groups) * cg; }
  double flops() const {
    return 2.0 * static_cast<double>(n * o * oh * ow) * static_cast<double>(cg * kh * kw);
  }
};

// stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups; then `shape_attr` when it is not empty.
std::vector<AttrSpec> conv_attrs(std::string_view shape_attr = {});
// The seven shared attributes of another node, without a shape.
Attrs conv_attrs_of(const Attrs& attrs);
Result<ConvGeometry> conv_geometry(const TensorType& x, const TensorType& filter, const Attrs& attrs);

// The range of output positions whose tap at `k` falls inside [0, in).
struct TapRange {
  std::int64_t begin, end;
};
inline TapRange tap_range(std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t pad,
                          std::int64_t tap) {
  const std::int64_t low = pad - tap;            // position * stride >= low
  const std::int64_t high = in - 1 + pad - tap;  // position * stride <= high
  const std::int64_t begin = low > 0 ? (low + stride - 1) / stride : 0;
  const std::int64_t end = high < 0 ? 0 : std::min(out, high / stride + 1);
  return {begin, std::max(begin, end)};
}

// Calls row(x_offset, x_step, y_offset, y_step, count) for every row of y that the tap (kh, kw) of (n, o, c)
// touches; `c` is a channel of x. Offsets and steps are in elements of tensors with strides xs and ys.
template <typename Row>
void conv_rows(const ConvGeometry& g, const Strides& xs, const Strides& ys, std::int64_t n, std::int64_t o,
               std::int64_t c, std::int64_t kh, std::int64_t kw, Row&& row) {
  const TapRange rows = tap_range(g.h, g.oh, g.stride_h, g.pad_h, kh * g.dilation_h);
  const TapRange cols = tap_range(g.w, g.ow, g.stride_w, g.pad_w, kw * g.dilation_w);
  if (cols.begin == cols.end) return;
  const std::int64_t iw = cols.begin * g.stride_w - g.pad_w + kw * g.dilation_w;
  const std::int64_t x0 = n * xs[0] + c * xs[1] + iw * xs[3];
  const std::int64_t y0 = n * ys[0] + o * ys[1] + cols.begin * ys[3];
  for (std::int64_t oh = rows.begin; oh < rows.end; ++oh) {
    const std::int64_t ih = oh * g.stride_h - g.pad_h + kh * g.dilation_h;
    row(x0 + ih * xs[2], g.stride_w * xs[3], y0 + oh * ys[2], ys[3], cols.end - cols.begin);
  }
}

}  // namespace trireme::op::detail
