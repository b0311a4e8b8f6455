// Every fast kernel of the CPU. For each op the first applicable row wins, so faster rows stand first.
#include "trireme/kernel/kernel.h"
#include "trireme/op/op.h"

namespace trireme::kernel {

// Rows, each defined in the file of its op.
// gemm.h: the BLAS of this build
extern const op::KernelRow kConv2dGemm, kConv2dInputGradGemm, kConv2dFilterGradGemm, kMatmulGemm,
    kAttentionGemm, kAttentionGradGemm, kGruGemm, kGruGradGemm, kLstmGemm, kLstmGradGemm, kLstmKeptGemm,
    kLstmKeptGradGemm, kRnnGemm, kRnnGradGemm, kConv2dWinograd, kConv2dInputGradWinograd,
    kConv2dFilterGradWinograd, kAdaptedGemm, kAdaptedWinograd;
// wide.h: 16-bit floats through the f32 rows above
extern const op::KernelRow kAttentionWide, kAttentionGradWide, kConv2dWide, kConv2dInputGradWide,
    kConv2dFilterGradWide;
#ifdef TRIREME_HAVE_ONEDNN
extern const op::KernelRow kConv2dOnednn, kConv2dInputGradOnednn, kConv2dFilterGradOnednn, kMatmulOnednn,
    kConv2dOnednnWinograd, kConv2dInputGradOnednnWinograd, kConv2dFilterGradOnednnWinograd, kAdaptedOnednn,
    kAdaptedMatmulOnednn;
#endif
// simd/loops.h
extern const op::KernelRow kMaxPool2dVector, kMaxPool2dGradVector, kMaxPool2dPlacesVector,
    kMaxPool2dPlacesGradVector, kBiasAddVector, kBiasGradVector, kAddVector, kSubVector, kMulVector,
    kScaleVector, kReluVector, kReluGradVector, kSumVector, kMeanVector, kEmbeddingGradVector,
    kApplySgdVector, kApplyMomentumVector, kCastVector;
// simd/update_loops.h
extern const op::KernelRow kApplyAdamVector, kApplyAdamwVector, kApplyAdagradVector, kApplyLarsVector,
    kApplyRmspropVector;
// simd/misc_loops.h
extern const op::KernelRow kCorrectVector, kDropoutVector, kLocalResponseNormVector;
// plane by plane
extern const op::KernelRow kAvgPool2dPlanes, kAvgPool2dGradPlanes;
// no arithmetic
extern const op::KernelRow kBroadcastToCopy, kConcatCopy, kEmbeddingCopy, kSplitCopy, kTransposeCopy;
// simd/functions.h
extern const op::KernelRow kErfVector, kExpVector, kLogVector, kSoftplusVector, kGeluVector, kSigmoidVector,
    kSiluVector, kTanhVector, kAbsVector, kNegVector, kReciprocalVector, kRsqrtVector, kSqrtVector,
    kSquareVector, kDivVector, kMaximumVector, kMinimumVector, kSquaredDifferenceVector;
// simd/row_loops.h
extern const op::KernelRow kBatchNormVector, kBatchNormGradVector, kBatchNormInferenceVector,
    kLayerNormVector, kLayerNormGradVector, kLogSoftmaxVector, kSoftmaxVector, kSoftmaxCrossEntropyVector,
    kSoftmaxCrossEntropyGradVector;
// simd/channel_loops.h
extern const op::KernelRow kBatchNormRows, kBatchNormGradRows, kBatchNormReluRows, kBatchNormReluGradRows,
    kBatchNormAddReluGradRows, kBatchNormInferenceRows, kAdaptedRows, kAdaptedWindows, kAdaptedPlaces;
// simd/tiles.h
extern const op::KernelRow kAdaptedConvTiles, kAdaptedFilterTiles;
// casts and transposes around another row
extern const op::KernelRow kAdaptedStaged;
// simd/tiles.h
extern const op::KernelRow kAdaptedLstmTiles, kLstmKeptTiles;
extern const op::KernelRow kAdaptedProductTiles, kMatmulTiles;
// the rows of the members, block by block or chunk by chunk
extern const op::KernelRow kFusedBlocks, kMatmulBiasActChunks, kConv2dBiasActChunks;

std::span<const op::KernelRow> cpu_kernels() {
  // clang-format off
  static const op::KernelRow rows[] = {
      kAbsVector,
      kAdaptedGemm,
      kAdaptedConvTiles,
      kAdaptedFilterTiles,
      kAdaptedProductTiles,
#ifdef TRIREME_HAVE_ONEDNN
      kAdaptedOnednn,
      kAdaptedMatmulOnednn,
#endif
      kAdaptedWinograd,
      kAdaptedLstmTiles,
      kAdaptedRows,
      kAdaptedWindows,
      kAdaptedPlaces,
      kAdaptedStaged,
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
      kBatchNormRows,
      kBatchNormGradRows,
      kBatchNormReluRows,
      kBatchNormReluGradRows,
      kBatchNormAddReluGradRows,
      kBatchNormInferenceRows,
      kBiasAddVector,
      kBiasGradVector,
      kCastVector,
      kBroadcastToCopy,
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
      kLstmKeptTiles,
      kLstmKeptGemm,
      kLstmKeptGradGemm,
      kMatmulTiles,
#ifdef TRIREME_HAVE_ONEDNN
      kMatmulOnednn,
#endif
      kMatmulGemm,
      kMatmulBiasActChunks,
      kMaxPool2dVector,
      kMaxPool2dGradVector,
      kMaxPool2dPlacesVector,
      kMaxPool2dPlacesGradVector,
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
