// The family of all ops, in name order. One row per op/<family>/<op>.cc.
#include <array>

#include "trireme/op/ops.h"

namespace trireme::op {

std::span<const OpDef* const> op_table() {
  static constexpr std::array kTable{
      &kAdd,     &kBroadcastTo, &kCast,   &kDiv,  &kExp,      &kFill,      &kInput,
      &kLog,     &kMul,         &kNeg,    &kRelu, &kReluGrad, &kReshape,   &kScale,
      &kSigmoid, &kSqrt,        &kSquare, &kSub,  &kTanh,     &kTranspose, &kVariable,
  };
  return kTable;
}

}  // namespace trireme::op
