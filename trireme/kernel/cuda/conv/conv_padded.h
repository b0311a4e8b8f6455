// Images of few channels, channels last, as images of more: convolutions of 16-bit values want multiples of
// 16 bytes.
#pragma once

#include "trireme/kernel/cuda/device/device.h"

namespace trireme::kernel::cuda {

class ChannelPadding {
 public:
  static constexpr std::int64_t kWide = 8;  // channels
  // Whether images of `channels` channels of `dtype` are worth it.
  static bool pays(DType dtype, std::int64_t channels);
  static Result<ChannelPadding> make(CudaDevice& device, DType dtype, std::int64_t channels);

  // Pixels with zeros behind their channels; `to` lies at a multiple of 16 bytes.
  Status widen(CudaStream& stream, const void* from, void* to, std::int64_t pixels) const;
  // The first channels of such pixels.
  Status narrow(CudaStream& stream, const void* from, void* to, std::int64_t pixels) const;

 private:
  const Function *widen_ = nullptr, *narrow_ = nullptr;
};

}  // namespace trireme::kernel::cuda
