// The numbers of a 2-d convolution, however the op names its operands.
#pragma once

#include <cstdint>
#include <string_view>

#include "trireme/op/op.h"

namespace trireme::kernel {

// x [n, c, h, w], filter [o, c / groups, kh, kw], y [n, o, oh, ow].
struct ConvShape {
  std::int64_t n, c, h, w, o, kh, kw, oh, ow;
  std::int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;

  std::int64_t group_c() const { return c / groups; }
  std::int64_t group_o() const { return o / groups; }
  std::int64_t padded_h() const { return h + 2 * pad_h; }
  std::int64_t padded_w() const { return w + 2 * pad_w; }
  std::int64_t taps() const { return group_c() * kh * kw; }  // products per output element
  std::int64_t macs() const { return n * o * oh * ow * taps(); }
  bool is_pointwise() const {
    return kh == 1 && kw == 1 && stride_h == 1 && stride_w == 1 && pad_h == 0 && pad_w == 0;
  }
};

ConvShape conv_shape(const Shape& x, const Shape& filter, const Shape& y, const op::Attrs& attrs);

// The shapes of the three ops, from their inputs and outputs in the order of the OpDef.
ConvShape forward_shape(std::span<const TensorType> in, std::span<const TensorType> out,
                        const op::Attrs& attrs);
ConvShape input_grad_shape(std::span<const TensorType> in, std::span<const TensorType> out,
                           const op::Attrs& attrs);
ConvShape filter_grad_shape(std::span<const TensorType> in, std::span<const TensorType> out,
                            const op::Attrs& attrs);

using ShapeOfOp = ConvShape (*)(std::span<const TensorType>, std::span<const TensorType>, const op::Attrs&);
// The same of a call.
ConvShape shape_of_call(ShapeOfOp op, const op::KernelArgs& args);

// Slices of images worth their overhead.
int conv_slices(const ConvShape& s, int width);

// Whether a row that computes by `method` (direct, im2col) may serve a call: the attribute names it or is
// "auto".
bool method_allows(const op::Attrs& attrs, std::string_view method);

}  // namespace trireme::kernel
