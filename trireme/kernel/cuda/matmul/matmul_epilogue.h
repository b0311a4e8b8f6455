// What follows a product where no library fuses it: + bias per channel, then perhaps relu, in place.
#pragma once

#include "trireme/kernel/cuda/device/device.h"

namespace trireme::kernel::cuda {

class BiasRelu {
 public:
  // y is [..., channels, inner], bias [channels].
  static Result<BiasRelu> make(CudaDevice& device, const TensorType& y, std::int64_t channels,
                               std::int64_t inner, bool relu);
  Status enqueue(CudaStream& stream, void* y, const void* bias) const;

 private:
  const Function *function_ = nullptr, *rows_ = nullptr;  // rows_: wide_ elements at a time
  std::int64_t wide_ = 0;
  bool small_ = true;
  std::int64_t elems_ = 0, channels_ = 0, inner_ = 0;
};

}  // namespace trireme::kernel::cuda
