#include "trireme/kernel/cpu/conv/conv_shape.h"

#include <array>

#include "trireme/kernel/cpu/slices.h"

namespace trireme::kernel {

ConvShape conv_shape(const Shape& x, const Shape& filter, const Shape& y, const op::Attrs& attrs) {
  return {.n = x[0],
          .c = x[1],
          .h = x[2],
          .w = x[3],
          .o = filter[0],
          .kh = filter[2],
          .kw = filter[3],
          .oh = y[2],
          .ow = y[3],
          .stride_h = attrs.get_int("stride_h"),
          .stride_w = attrs.get_int("stride_w"),
          .pad_h = attrs.get_int("pad_h"),
          .pad_w = attrs.get_int("pad_w"),
          .dilation_h = attrs.get_int("dilation_h"),
          .dilation_w = attrs.get_int("dilation_w"),
          .groups = attrs.get_int("groups")};
}

ConvShape forward_shape(std::span<const TensorType> in, std::span<const TensorType> out,
                        const op::Attrs& attrs) {
  return conv_shape(in[0].shape, in[1].shape, out[0].shape, attrs);
}
ConvShape input_grad_shape(std::span<const TensorType> in, std::span<const TensorType> out,
                           const op::Attrs& attrs) {
  return conv_shape(out[0].shape, in[0].shape, in[1].shape, attrs);
}
ConvShape filter_grad_shape(std::span<const TensorType> in, std::span<const TensorType> out,
                            const op::Attrs& attrs) {
  return conv_shape(in[0].shape, out[0].shape, in[1].shape, attrs);
}

ConvShape shape_of_call(ShapeOfOp op, const op::KernelArgs& args) {
  const std::array in{args.in(0).type(), args.in(1).type()};
  return op(in, std::array{args.out(0).type()}, args.attrs);
}

int conv_slices(const ConvShape& s, int width) {
  constexpr std::int64_t kMacsPerElem = 32;  // multiply-adds that cost about as much as touching one element
  return num_slices(s.n, s.macs() / kMacsPerElem, width);
}

bool method_allows(const op::Attrs& attrs, std::string_view method) {
  const op::AttrValue* given = attrs.find("method");
  if (given == nullptr) return true;
  const std::string& name = std::get<std::string>(*given);
  return name == "auto" || name == method;
}

}  // namespace trireme::kernel
