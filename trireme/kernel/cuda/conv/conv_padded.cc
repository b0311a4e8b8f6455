#include "trireme/kernel/cuda/conv/conv_padded.h"

#include <fmt/format.h>

namespace trireme::kernel::cuda {

extern const char kConvPaddedText[];  // conv_padded.cu

namespace {

constexpr unsigned kThreads = 256;

Status run(CudaStream& stream, const Function* f, const void* from, void* to, std::int64_t pixels) {
  if (pixels == 0) return ok_status();
  return launch(stream, *f, {blocks_for(pixels, kThreads)}, {kThreads}, 0, from, to, pixels);
}

}  // namespace

bool ChannelPadding::pays(DType dtype, std::int64_t channels) {
  return (dtype == DType::kBF16 || dtype == DType::kF16) && channels < kWide;
}

Result<ChannelPadding> ChannelPadding::make(CudaDevice& device, DType dtype, std::int64_t channels) {
  TR_CHECK(pays(dtype, channels));
  const std::string text =
      fmt::format("constexpr int kChannels = {}, kWide = {};\n{}", channels, kWide, kConvPaddedText);
  ChannelPadding made;
  TR_ASSIGN_OR_RETURN(made.widen_, device.function(text, "widen"));
  TR_ASSIGN_OR_RETURN(made.narrow_, device.function(text, "narrow"));
  return made;
}

Status ChannelPadding::widen(CudaStream& stream, const void* from, void* to, std::int64_t pixels) const {
  return run(stream, widen_, from, to, pixels);
}
Status ChannelPadding::narrow(CudaStream& stream, const void* from, void* to, std::int64_t pixels) const {
  return run(stream, narrow_, from, to, pixels);
}

}  // namespace trireme::kernel::cuda
