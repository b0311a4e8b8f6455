// The convolution within an `adapted` node whose images have the channels last.
#pragma once

#include <optional>

#include "trireme/kernel/cpu/conv/conv_cut.h"
#include "trireme/kernel/cpu/inner.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/op/ops.h"

namespace trireme::kernel {

struct InnerConv {
  ConvKind kind;
  ConvShape shape;
  op::Attrs attrs;

  // Where all operands have the dtype, `method` may be had and there is something to do.
  static std::optional<InnerConv> of(const op::KernelQuery& q, DType dtype, std::string_view method) {
    if (!all_of_dtype(q, dtype) || !fits_int32(q)) return {};
    const auto inner = Inner::of(q);
    if (!inner || !inner->adapted.channels_last) return {};
    const op::OpDef* const def = inner->adapted.def;
    InnerConv conv{{}, {}, inner->adapted.attrs};
    if (def == &op::kConv2d)
      conv.kind = ConvKind::kForward, conv.shape = forward_shape(inner->inputs, inner->outputs, conv.attrs);
    else if (def == &op::kConv2dInputGrad)
      conv.kind = ConvKind::kInputGrad,
      conv.shape = input_grad_shape(inner->inputs, inner->outputs, conv.attrs);
    else if (def == &op::kConv2dFilterGrad)
      conv.kind = ConvKind::kFilterGrad,
      conv.shape = filter_grad_shape(inner->inputs, inner->outputs, conv.attrs);
    else
      return {};
    if (conv.shape.macs() == 0 || !method_allows(conv.attrs, method)) return {};
    return conv;
  }
};

}  // namespace trireme::kernel
