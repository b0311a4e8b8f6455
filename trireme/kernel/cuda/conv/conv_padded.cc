#include "trireme/kernel/cuda/conv/conv_padded.h"

#include <fmt/format.h>

namespace trireme::kernel::cuda {
namespace {

constexpr unsigned kThreads = 256;

// A thread has one pixel.
constexpr const char* kText = R"cuda(
extern "C" __global__ void widen(const u16* from, u16* to, i64 pixels) {
  for (i64 i = first_index(); i < pixels; i += grid_step()) {
    Pack<u16, kWide> all;
#pragma unroll
    for (int k = 0; k < kWide; ++k) all.v[k] = k < kChannels ? from[i * kChannels + k] : (u16)0;
    *(Pack<u16, kWide>*)(to + i * kWide) = all;
  }
}
extern "C" __global__ void narrow(const u16* from, u16* to, i64 pixels) {
  for (i64 i = first_index(); i < pixels; i += grid_step()) {
    const Pack<u16, kWide> all = *(const Pack<u16, kWide>*)(from + i * kWide);
#pragma unroll
    for (int k = 0; k < kChannels; ++k) to[i * kChannels + k] = all.v[k];
  }
}
)cuda";

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
      fmt::format("constexpr int kChannels = {}, kWide = {};\n{}", channels, kWide, kText);
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
