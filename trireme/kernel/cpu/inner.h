// What an `adapted` node asks of a kernel: the op within, with the operands as they are in memory.
#pragma once

#include <optional>
#include <vector>

#include "trireme/op/fused/adapted.h"
#include "trireme/op/op.h"

namespace trireme::kernel {

struct Inner {
  op::detail::Adapted adapted;
  std::vector<TensorType> inputs, outputs;  // real dtypes; shapes as the op has them, [N,C,H,W]

  static std::optional<Inner> of(const op::KernelQuery& q) {
    auto adapted = op::detail::parse_adapted(q.attrs.get_text("program"));
    if (!adapted.ok()) return std::nullopt;
    Inner inner{
        std::move(*adapted), {q.inputs.begin(), q.inputs.end()}, {q.outputs.begin(), q.outputs.end()}};
    if (inner.adapted.channels_last)
      for (auto* types : {&inner.inputs, &inner.outputs})
        for (TensorType& t : *types) t.shape = op::detail::channels_second(t.shape);
    return inner;
  }
  op::KernelQuery query(int width) const { return {*adapted.def, inputs, outputs, adapted.attrs, width}; }
};

}  // namespace trireme::kernel
