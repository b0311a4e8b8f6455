// The family of all ops, in name order. One row per op/<family>/<op>.cc.
#include <array>

#include "trireme/op/ops.h"

namespace trireme::op {

std::span<const OpDef* const> op_table() {
  // clang-format off
  static constexpr std::array kTable{
      &kAdd,
      &kAllgather,
      &kAllreduce,
      &kApplyMomentum,
      &kApplySgd,
      &kArgmax,
      &kAssign,
      &kAssignAdd,
      &kBiasAdd,
      &kBiasGrad,
      &kBroadcast,
      &kBroadcastTo,
      &kCast,
      &kConstant,
      &kConv2d,
      &kConv2dFilterGrad,
      &kConv2dInputGrad,
      &kCorrect,
      &kCount,
      &kDequeue,
      &kDiv,
      &kDropout,
      &kEnqueue,
      &kExp,
      &kFill,
      &kFused,
      &kInput,
      &kLog,
      &kMatmul,
      &kMax,
      &kMaxPool2d,
      &kMaxPool2dGrad,
      &kMean,
      &kMul,
      &kNeg,
      &kRecv,
      &kReduceScatter,
      &kRelu,
      &kReluGrad,
      &kReshape,
      &kRestore,
      &kSave,
      &kScale,
      &kSend,
      &kSigmoid,
      &kSoftmax,
      &kSoftmaxCrossEntropy,
      &kSoftmaxCrossEntropyGrad,
      &kSqrt,
      &kSquare,
      &kStopGradient,
      &kSub,
      &kSum,
      &kTanh,
      &kTranspose,
      &kVariable,
  };
  // clang-format on
  return kTable;
}

}  // namespace trireme::op
