// Every fast kernel of the CPU. For each op the first applicable row wins, so faster rows stand first.
#include "trireme/kernel/cpu/rows.h"
#include "trireme/kernel/kernel.h"

namespace trireme::kernel {

std::span<const op::KernelRow> cpu_kernels() {
  // clang-format off
  static const op::KernelRow rows[] = {
      kAbsVector,
      kAddVector,
      kApplyAdagradVector,
      kApplyAdamVector,
      kApplyAdamwVector,
      kApplyLarsVector,
      kApplyMomentumVector,
      kApplyRmspropVector,
      kApplySgdVector,
      kAttentionGemm,
      kAttentionGradGemm,
      kAttentionWide,
      kAttentionGradWide,
      kAvgPool2dPlanes,
      kAvgPool2dGradPlanes,
      kBatchNormVector,
      kBatchNormGradVector,
      kBatchNormInferenceVector,
      kBiasAddVector,
      kBiasGradVector,
      kCastVector,
      kConcatCopy,
#ifdef TRIREME_HAVE_ONEDNN
      kConv2dOnednn,
      kConv2dFilterGradOnednn,
      kConv2dInputGradOnednn,
#endif
      kConv2dGemm,
      kConv2dFilterGradGemm,
      kConv2dInputGradGemm,
      kConv2dWinograd,
      kConv2dFilterGradWinograd,
      kConv2dInputGradWinograd,
#ifdef TRIREME_HAVE_ONEDNN
      kConv2dOnednnWinograd,
      kConv2dFilterGradOnednnWinograd,
      kConv2dInputGradOnednnWinograd,
#endif
      kConv2dWide,
      kConv2dFilterGradWide,
      kConv2dInputGradWide,
      kConv2dBiasActChunks,
      kCorrectVector,
      kDivVector,
      kDropoutVector,
      kEmbeddingCopy,
      kEmbeddingGradVector,
      kErfVector,
      kExpVector,
      kFusedBlocks,
      kGeluVector,
      kGruGemm,
      kGruGradGemm,
      kLayerNormVector,
      kLayerNormGradVector,
      kLocalResponseNormVector,
      kLogVector,
      kLogSoftmaxVector,
      kLstmGemm,
      kLstmGradGemm,
#ifdef TRIREME_HAVE_ONEDNN
      kMatmulOnednn,
#endif
      kMatmulGemm,
      kMatmulBiasActChunks,
      kMaxPool2dVector,
      kMaxPool2dGradVector,
      kMaximumVector,
      kMeanVector,
      kMinimumVector,
      kMulVector,
      kNegVector,
      kReciprocalVector,
      kReluVector,
      kReluGradVector,
      kRnnGemm,
      kRnnGradGemm,
      kRsqrtVector,
      kScaleVector,
      kSigmoidVector,
      kSiluVector,
      kSoftmaxVector,
      kSoftmaxCrossEntropyVector,
      kSoftmaxCrossEntropyGradVector,
      kSoftplusVector,
      kSplitCopy,
      kSqrtVector,
      kSquareVector,
      kSquaredDifferenceVector,
      kSubVector,
      kSumVector,
      kTanhVector,
      kTransposeCopy,
  };
  // clang-format on
  return rows;
}

}  // namespace trireme::kernel
