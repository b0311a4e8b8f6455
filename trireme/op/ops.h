// The OpDefs by name, for code that builds graphs. One line per op; the definitions live in
// op/<family>/<op>.cc.
#pragma once

#include "trireme/op/op.h"

namespace trireme::op {
// feed: values from outside
extern const OpDef kInput, kVariable;  // attributes: name, dtype, shape
// elementwise (NumPy broadcasting for ops of several inputs)
extern const OpDef kAdd, kSub, kMul, kDiv, kPow, kMaximum, kMinimum, kSquaredDifference;
extern const OpDef kNeg, kAbs, kSign, kReciprocal, kScale, kClip, kFloor, kCeil, kRound, kCast;
extern const OpDef kExp, kExpm1, kLog, kLog1p, kSqrt, kRsqrt, kSquare, kSin, kCos, kErf;
extern const OpDef kRelu, kReluGrad, kLeakyRelu, kElu, kGelu, kSilu, kSoftplus, kSigmoid, kTanh;
extern const OpDef kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIsNan, kIsFinite;  // bool
extern const OpDef kLogicalAnd, kLogicalOr, kLogicalNot, kSelect;  // select: cond, a, b
// reduce: attributes axes (ints, empty = all), keep_dims; argmax, argmin: axis, keep_dims
extern const OpDef kSum, kMean, kMax, kMin, kProd, kLogsumexp, kAny, kAll, kArgmax, kArgmin;
// array
extern const OpDef kReshape, kTranspose, kBroadcastTo, kTile, kReverse, kConcat, kSplit, kCumsum;
extern const OpDef kSlice, kSliceGrad, kPad, kGather, kScatterAdd, kOneHot;
extern const OpDef kFill, kRange;                            // no inputs; fill: value, dtype, shape
extern const OpDef kFillLike, kCount, kShape, kRank, kSize;  // read the type of their input only
extern const OpDef kPartBegin, kTakePart;                    // of a position along an axis of the mesh
// linalg: of the last two dimensions; matmul: attributes transpose_a, transpose_b
extern const OpDef kMatmul, kInverse, kDeterminant;
// nn
extern const OpDef kConv2d, kConv2dInputGrad, kConv2dFilterGrad, kConv2dTranspose;
extern const OpDef kLocallyConnected2d, kLocallyConnected2dInputGrad, kLocallyConnected2dFilterGrad;
extern const OpDef kMaxPool2d, kMaxPool2dGrad, kMaxPool2dGradGrad, kAvgPool2d, kAvgPool2dGrad, kL2Pool2d;
extern const OpDef kBiasAdd, kBiasGrad, kSoftmax, kLogSoftmax, kCorrect;
extern const OpDef kSoftmaxCrossEntropy, kSoftmaxCrossEntropyGrad, kSquaredError, kSquaredErrorGrad;
extern const OpDef kBatchNorm, kBatchNormGrad, kBatchNormInference, kLayerNorm, kLayerNormGrad;
extern const OpDef kLocalResponseNorm, kWindowSum, kLocalContrastNorm, kGaussianBlur2d;
// sequence: weights, gate order and formulas as in PyTorch (sequence/recurrent.h, sequence/attention.h)
extern const OpDef kEmbedding, kEmbeddingGrad, kAttention, kAttentionGrad, kAttentionGradGrad, kAttentionPart,
    kAttentionPartGrad;
extern const OpDef kRnn, kRnnGrad, kRnnGradGrad, kLstm, kLstmGrad, kLstmGradGrad, kGru, kGruGrad,
    kGruGradGrad;
// random: attribute stream; inputs key, step and what it is for (random/random.h)
extern const OpDef kDropout, kDropoutPart, kUniform, kNormal, kBernoulli, kPermutation, kShuffle;
// update: optimiser applications, mutate their first inputs
extern const OpDef kApplySgd, kApplyMomentum, kApplyAdagrad, kApplyRmsprop, kApplyAdam, kApplyAdamw,
    kApplyLars, kApplyRunningAverage, kApplyRunningVariance, kAllFinite, kUpdateLossScale, kAssign,
    kAssignAdd;
// made by graph passes: what folding leaves, a group of elementwise ops, the identity without a gradient
extern const OpDef kConstant, kFused, kStopGradient, kMatmulBiasAct, kConv2dBiasAct;
// comm and resource: host ops
extern const OpDef kAllreduce, kSend, kRecv, kBroadcast, kAllgather, kReduceScatter, kAllToAll, kHaloExchange,
    kEnqueue, kDequeue, kSave, kRestore;
}  // namespace trireme::op
