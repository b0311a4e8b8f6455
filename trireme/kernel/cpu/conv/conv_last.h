// A convolution whose images have the channels last.
#pragma once

#include <optional>

#include "trireme/kernel/cpu/conv/conv_cut.h"
#include "trireme/kernel/cpu/formed.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/op/ops.h"

namespace trireme::kernel {

struct LastConv {
  ConvKind kind;
  ConvShape shape;

  // Where all operands have the dtype, `method` may be had and there is something to do.
  static std::optional<LastConv> of(const op::KernelQuery& q, DType dtype, std::string_view method) {
    if (!all_of_dtype(q, dtype) || !fits_int32(q)) return {};
    const op::MemoryTypes types(q);
    if (!types.channels_last) return {};
    LastConv conv{};
    if (&q.def == &op::kConv2d)
      conv = {ConvKind::kForward, forward_shape(types.inputs, types.outputs, q.attrs)};
    else if (&q.def == &op::kConv2dInputGrad)
      conv = {ConvKind::kInputGrad, input_grad_shape(types.inputs, types.outputs, q.attrs)};
    else if (&q.def == &op::kConv2dFilterGrad)
      conv = {ConvKind::kFilterGrad, filter_grad_shape(types.inputs, types.outputs, q.attrs)};
    else
      return {};
    if (conv.shape.macs() == 0 || !method_allows(q.attrs, method)) return {};
    return conv;
  }
};

}  // namespace trireme::kernel
