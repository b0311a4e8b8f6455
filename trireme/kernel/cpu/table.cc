// Every fast kernel of the CPU. For each op the first applicable row wins, so faster rows stand first.
#include "trireme/kernel/cpu/rows.h"
#include "trireme/kernel/kernel.h"

namespace trireme::kernel {

std::span<const op::KernelRow> cpu_kernels() {
  // clang-format off
  static const op::KernelRow rows[] = {
      kAddVector,
      kApplyMomentumVector,
      kApplySgdVector,
      kAttentionGemm,
      kAttentionGradGemm,
      kBiasAddVector,
      kBiasGradVector,
      kCastVector,
#ifdef TRIREME_HAVE_ONEDNN
      kConv2dOnednn,
      kConv2dFilterGradOnednn,
      kConv2dInputGradOnednn,
#endif
      kConv2dGemm,
      kConv2dFilterGradGemm,
      kConv2dInputGradGemm,
      kConv2dBiasActChunks,
      kErfVector,
      kExpVector,
      kFusedBlocks,
      kGeluVector,
      kLayerNormVector,
      kLayerNormGradVector,
      kMatmulGemm,
      kMatmulBiasActChunks,
      kMaxPool2dVector,
      kMaxPool2dGradVector,
      kMulVector,
      kReluVector,
      kReluGradVector,
      kScaleVector,
      kSigmoidVector,
      kSiluVector,
      kSubVector,
      kSumVector,
      kTanhVector,
  };
  // clang-format on
  return rows;
}

}  // namespace trireme::kernel
