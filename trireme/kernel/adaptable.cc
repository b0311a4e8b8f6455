#include "trireme/kernel/adaptable.h"

#include "trireme/kernel/cpu/library.h"
#include "trireme/kernel/cpu/simd/tiles.h"

namespace trireme::kernel {

OpNames adaptable_cpu_ops() {
  if (!has_bf16_units()) return {};
  return {"batch_norm",
          "batch_norm_grad",
          "batch_norm_relu",
          "batch_norm_relu_grad",
          "batch_norm_add_relu_grad",
          "batch_norm_inference",
          "bias_grad",
          "max_pool2d",
          "max_pool2d_grad"};
}

OpNames channels_last_cpu_ops(DType dtype) {
#ifdef TRIREME_HAVE_ONEDNN
  const bool fast = dtype == DType::kF32 || has_bf16_units();
#else
  const bool fast = dtype != DType::kF32 && has_bf16_units();
#endif
  if (!fast) return {};
  OpNames ops{"conv2d", "conv2d_input_grad", "conv2d_filter_grad", "max_pool2d", "max_pool2d_grad"};
  if (dtype == DType::kF32) ops.insert({"max_pool2d_places", "max_pool2d_places_grad"});
  return ops;
}

bool lowers_cpu_gates() { return has_bf16_units() && tiles::best() != nullptr; }

}  // namespace trireme::kernel
