// Elementwise ops.
#include <algorithm>

#include "tests/conformance/cases/cases.h"
#include "trireme/op/array/cast_all.h"
#include "trireme/op/elementwise/gelu_grad.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

namespace {
void add_binary(std::vector<OpCase>& t) {
  for (const OpDef* d :
       {&kAdd, &kSub, &kMul, &kDiv, &kPow, &kMaximum, &kMinimum, &kSquaredDifference, &kLess, &kEqual}) {
    const Fill first = d == &kPow ? kPositive : kReal;
    t.push_back({d, "same shape", {{first, {3, 4}}, {kReal, {3, 4}}}});
    t.push_back({d, "broadcast both ways", {{first, {2, 1, 4}}, {kReal, {3, 1}}}});
    t.push_back({d, "scalar", {{first, {}}, {kReal, {5}}}});
    t.push_back({d, "one element", {{first, {1, 1}}, {kReal, {1}}}});
    t.push_back({d, "empty", {{first, {0, 3}}, {kReal, {1, 3}}}});
    if (d != &kDiv && d != &kPow) t.push_back({d, "integers", {{kInts, {2, 3}}, {kInts, {3}}}});
  }
}

void add_unary(std::vector<OpCase>& t) {
  const std::vector<const OpDef*> positive{&kLog, &kSqrt, &kRsqrt, &kLog1p};
  for (const OpDef* d : {&kNeg,  &kExp,       &kSquare, &kRelu,       &kSigmoid, &kTanh,  &kScale,    &kLog,
                         &kSqrt, &kAbs,       &kSign,   &kReciprocal, &kRsqrt,   &kLog1p, &kExpm1,    &kSin,
                         &kCos,  &kErf,       &kFloor,  &kCeil,       &kRound,   &kElu,   &kSoftplus, &kGelu,
                         &kSilu, &kLeakyRelu, &kClip,   &kIsNan,      &kIsFinite}) {
    const Fill fill = std::find(positive.begin(), positive.end(), d) == positive.end() ? kReal : kPositive;
    Attrs attrs;
    if (d == &kScale) attrs = one("factor", -1.5);
    if (d == &kElu) attrs = one("alpha", 0.75);
    if (d == &kClip) attrs = {{"low", -1.0}, {"high", 1.0}};
    t.push_back({d, "matrix", {{fill, {3, 5}}}, attrs});
    t.push_back({d, "four dims", {{fill, {2, 3, 2, 2}}}, attrs});
    t.push_back({d, "scalar", {{fill, {}}}, attrs});
    t.push_back({d, "empty", {{fill, {4, 0}}}, attrs});
  }
  for (const OpDef* d : {&kNeg, &kSquare, &kRelu, &kAbs, &kSign})
    t.push_back({d, "integers", {{kInts32, {7}}}});
  t.push_back({&kGelu, "by tanh", {{kReal, {3, 5}}}, one("tanh", true)});
  t.push_back({&kLeakyRelu, "steep", {{kReal, {7}}}, one("slope", 0.5)});
  t.push_back({&kClip, "above only", {{kReal, {9}}}, one("high", 1.0)});
  for (const bool tanh : {false, true})
    t.push_back(
        {&kGeluGrad, tanh ? "by tanh" : "matrix", {{kReal, {3, 5}}, {kReal, {3, 5}}}, one("tanh", tanh)});
  t.push_back({&kGeluGrad, "empty", {{kReal, {0}}, {kReal, {0}}}});
  t.push_back({&kReluGrad, "matrix", {{kReal, {3, 4}}, {kReal, {3, 4}}}});
  t.push_back({&kReluGrad, "empty", {{kReal, {0}}, {kReal, {0}}}});
}

void add_logical(std::vector<OpCase>& t) {
  // Distinct values by index: the first rows are equal, the others are not.
  for (const OpDef* d : {&kEqual, &kNotEqual, &kLess, &kLessEqual, &kGreater, &kGreaterEqual}) {
    t.push_back({d, "some equal", {{kDistinct, {3, 4}}, {kDistinct, {4}}}});
    t.push_back({d, "bytes", {{kBytes, {5}}, {kBytes, {5}}}});
    t.push_back({d, "nothing", {{kReal, {2, 0}}, {kReal, {}}}});
  }
  for (const OpDef* d : {&kEqual, &kNotEqual}) t.push_back({d, "bools", {{kBools, {7}}, {kBools, {7}}}});
  for (const OpDef* d : {&kLogicalAnd, &kLogicalOr}) {
    t.push_back({d, "same shape", {{kBools, {3, 5}}, {kBools, {3, 5}}}});
    t.push_back({d, "broadcast", {{kBools, {2, 1, 4}}, {kBools, {3, 1}}}});
    t.push_back({d, "empty", {{kBools, {0}}, {kBools, {1}}}});
  }
  t.push_back({&kLogicalNot, "matrix", {{kBools, {3, 5}}}});
  t.push_back({&kLogicalNot, "scalar", {{kBools, {}}}});
  t.push_back({&kSelect, "same shape", {{kBools, {3, 4}}, {kReal, {3, 4}}, {kReal, {3, 4}}}});
  t.push_back({&kSelect, "all broadcast", {{kBools, {3, 1}}, {kReal, {2, 1, 4}}, {kReal, {}}}});
  t.push_back({&kSelect, "integers", {{kBools, {6}}, {kInts, {6}}, {kInts, {1}}}});
  t.push_back({&kSelect, "empty", {{kBools, {}}, {kReal, {0, 2}}, {kReal, {2}}}});
}

void add_casts(std::vector<OpCase>& t) {
  for (const DType to : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32}) {
    // Finite differences need the result to be as fine as the input.
    const bool coarse = is_floating(to) && to != DType::kF64;
    t.push_back(
        {&kCast, fmt::format("to {}", dtype_name(to)), {{coarse ? kInts : kReal, {2, 3}}}, one("dtype", to)});
  }
  t.push_back({&kCastAll,
               "some",
               {{kReal, {2, 3}}, {kReal, {0}}, {kReal, {}}, {kReal, {9000}}},
               one("dtype", DType::kBF16)});
  t.push_back({&kCast, "positive to u8", {{kPositive, {2, 3}}}, one("dtype", DType::kU8)});
  t.push_back({&kCast, "floats to bool", {{kReal, {2, 3}}}, one("dtype", DType::kBool)});
  t.push_back({&kCast, "from bytes", {{kBytes, {5}}}, one("dtype", DType::kF32)});
  t.push_back({&kCast, "from bools", {{kBools, {5}}}, one("dtype", DType::kF32)});
  t.push_back({&kCast, "to bool", {{kInts, {5}}}, one("dtype", DType::kBool)});
}
}  // namespace

void add_elementwise(std::vector<OpCase>& t) {
  add_binary(t);
  add_unary(t);
  add_logical(t);
  add_casts(t);
}

}  // namespace trireme::op::testing
