// Every fast kernel of the CPU. For each op the first applicable row wins, so faster rows stand first.
#include "trireme/kernel/kernel.h"
#include "trireme/op/op.h"

namespace trireme::kernel {

// Rows, each defined in the file of its op.
// gemm.h: the BLAS of this build
extern const op::KernelRow kConv2dGemm, kConv2dInputGradGemm, kConv2dFilterGradGemm, kMatmulGemm,
    kAttentionGemm, kAttentionGradGemm, kGruGemm, kGruGradGemm, kLstmGemm, kLstmGradGemm, kLstmKeptGemm,
    kLstmKeptGradGemm, kRnnGemm, kRnnGradGemm, kConv2dWinograd, kConv2dInputGradWinograd,
    kConv2dFilterGradWinograd, kConv2dLastGemm, kConv2dInputGradLastGemm, kConv2dFilterGradLastGemm,
    kConv2dLastWinograd, kConv2dInputGradLastWinograd, kConv2dFilterGradLastWinograd;
// wide.h: 16-bit floats through the f32 rows above
extern const op::KernelRow kAttentionWide, kAttentionGradWide, kConv2dWide, kConv2dInputGradWide,
    kConv2dFilterGradWide;
#ifdef TRIREME_HAVE_ONEDNN
extern const op::KernelRow kConv2dOnednn, kConv2dInputGradOnednn, kConv2dFilterGradOnednn, kMatmulOnednn,
    kConv2dOnednnWinograd, kConv2dInputGradOnednnWinograd, kConv2dFilterGradOnednnWinograd, kConv2dLastOnednn,
    kConv2dInputGradLastOnednn, kConv2dFilterGradLastOnednn, kMatmulFormedOnednn;
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
extern const op::KernelRow kCorrectVector, kDropoutPartVector, kDropoutVector, kLocalResponseNormVector;
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
    kBatchNormAddReluGradRows, kBatchNormInferenceRows, kBiasGradRows, kMaxPool2dWindows,
    kMaxPool2dGradWindows, kMaxPool2dPlacesLast, kMaxPool2dPlacesGradLast;
// simd/tiles.h
extern const op::KernelRow kConv2dLastTiles, kConv2dInputGradLastTiles, kConv2dFilterGradLastTiles,
    kLstmKeptGradTiles, kLstmKeptTiles, kMatmulFormedTiles, kMatmulTiles;
// casts and transposes around another row
extern const op::KernelRow kStaged;
// the rows of the members, block by block or chunk by chunk
extern const op::KernelRow kFusedBlocks, kMatmulBiasActChunks, kConv2dBiasActChunks;

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
      kBatchNormRows,
      kBatchNormGradRows,
      kBatchNormReluRows,
      kBatchNormReluGradRows,
      kBatchNormAddReluGradRows,
      kBatchNormInferenceRows,
      kBiasAddVector,
      kBiasGradVector,
      kBiasGradRows,
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
      kConv2dLastGemm,
      kConv2dFilterGradLastGemm,
      kConv2dInputGradLastGemm,
      kConv2dLastTiles,
      kConv2dFilterGradLastTiles,
      kConv2dInputGradLastTiles,
#ifdef TRIREME_HAVE_ONEDNN
      kConv2dLastOnednn,
      kConv2dFilterGradLastOnednn,
      kConv2dInputGradLastOnednn,
#endif
      kConv2dLastWinograd,
      kConv2dFilterGradLastWinograd,
      kConv2dInputGradLastWinograd,
      kConv2dBiasActChunks,
      kCorrectVector,
      kDivVector,
      kDropoutVector,
      kDropoutPartVector,
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
      kLstmKeptGradTiles,
      kMatmulTiles,
#ifdef TRIREME_HAVE_ONEDNN
      kMatmulOnednn,
#endif
      kMatmulGemm,
      kMatmulFormedTiles,
#ifdef TRIREME_HAVE_ONEDNN
      kMatmulFormedOnednn,
#endif
      kMatmulBiasActChunks,
      kMaxPool2dVector,
      kMaxPool2dGradVector,
      kMaxPool2dPlacesVector,
      kMaxPool2dPlacesGradVector,
      kMaxPool2dWindows,
      kMaxPool2dGradWindows,
      kMaxPool2dPlacesLast,
      kMaxPool2dPlacesGradLast,
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
      kStaged,
  };
  // clang-format on
  return rows;
}

}  // namespace trireme::kernel
