// The rows that kernel/cpu/<op>.cc define; table.cc puts them in order.
#pragma once

#include "trireme/op/op.h"

namespace trireme::kernel {
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
}  // namespace trireme::kernel
