// The OpDefs by name, for code that builds graphs. One line per op; the definitions live in
// op/<family>/<op>.cc.
#pragma once

#include "trireme/op/op.h"

namespace trireme::op {
// feed: values from outside
extern const OpDef kInput, kVariable;  // attributes: name, dtype, shape
// elementwise (NumPy broadcasting for binary ops)
extern const OpDef kAdd, kSub, kMul, kDiv, kNeg, kScale, kExp, kLog, kSqrt, kSquare, kRelu, kReluGrad,
    kSigmoid, kTanh, kCast;
// reduce: attributes axes (ints, empty = all), keep_dims
extern const OpDef kSum, kMean, kMax, kArgmax;
// array
extern const OpDef kReshape, kTranspose, kFill, kBroadcastTo, kCount;  // fill: no inputs; value, dtype, shape
// linalg: attributes transpose_a, transpose_b
extern const OpDef kMatmul;
// nn
extern const OpDef kConv2d, kConv2dInputGrad, kConv2dFilterGrad, kMaxPool2d, kMaxPool2dGrad, kBiasAdd,
    kBiasGrad, kSoftmax, kSoftmaxCrossEntropy, kSoftmaxCrossEntropyGrad, kCorrect;
// random: attribute stream; inputs x, key, step, sample ids
extern const OpDef kDropout;
// update: optimiser applications, mutate their first inputs
extern const OpDef kApplySgd, kApplyMomentum, kAssign, kAssignAdd;
// made by graph passes: what folding leaves, a group of elementwise ops, the identity without a gradient
extern const OpDef kConstant, kFused, kStopGradient;
// comm and resource: host ops
extern const OpDef kAllreduce, kSend, kRecv, kBroadcast, kAllgather, kReduceScatter, kEnqueue, kDequeue,
    kSave, kRestore;
}  // namespace trireme::op
