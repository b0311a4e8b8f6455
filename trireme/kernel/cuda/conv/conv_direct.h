// Convolutions by plain loops: any dtype, any geometry, slow. For what cuDNN does not take.
#pragma once

#include "trireme/kernel/cuda/conv/dnn.h"
#include "trireme/op/nn/conv2d.h"

namespace trireme::kernel::cuda {

class DirectConv {
 public:
  // The query names the device, the dtype and the order of dimensions in memory.
  static Result<DirectConv> make(const CudaQuery& query, DnnPass pass, const op::detail::ConvGeometry& g);
  // Writes the operand that the pass is named for: y, x or the filter. Sizes may be 0.
  Status enqueue(CudaStream& stream, void* x, void* filter, void* y) const;

 private:
  const Function* function_ = nullptr;
  DnnPass pass_ = DnnPass::forward;
  op::detail::ConvGeometry geometry_{};
};

}  // namespace trireme::kernel::cuda
