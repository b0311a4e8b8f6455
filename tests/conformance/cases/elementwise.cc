// Elementwise ops.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

void add_elementwise(std::vector<OpCase>& t) {
  for (const OpDef* d : {&kAdd, &kSub, &kMul, &kDiv}) {
    t.push_back({d, "same shape", {{kReal, {3, 4}}, {kReal, {3, 4}}}});
    t.push_back({d, "broadcast both ways", {{kReal, {2, 1, 4}}, {kReal, {3, 1}}}});
    t.push_back({d, "scalar", {{kReal, {}}, {kReal, {5}}}});
    t.push_back({d, "one element", {{kReal, {1, 1}}, {kReal, {1}}}});
    t.push_back({d, "empty", {{kReal, {0, 3}}, {kReal, {1, 3}}}});
    if (d != &kDiv) t.push_back({d, "integers", {{kInts, {2, 3}}, {kInts, {3}}}});
  }
  for (const OpDef* d : {&kNeg, &kExp, &kSquare, &kRelu, &kSigmoid, &kTanh, &kScale, &kLog, &kSqrt}) {
    const Fill fill = d == &kLog || d == &kSqrt ? kPositive : kReal;
    const Attrs attrs = d == &kScale ? one("factor", -1.5) : Attrs{};
    t.push_back({d, "matrix", {{fill, {3, 5}}}, attrs});
    t.push_back({d, "four dims", {{fill, {2, 3, 2, 2}}}, attrs});
    t.push_back({d, "scalar", {{fill, {}}}, attrs});
    t.push_back({d, "empty", {{fill, {4, 0}}}, attrs});
  }
  for (const OpDef* d : {&kNeg, &kSquare, &kRelu}) t.push_back({d, "integers", {{kInts32, {7}}}});
  t.push_back({&kReluGrad, "matrix", {{kReal, {3, 4}}, {kReal, {3, 4}}}});
  t.push_back({&kReluGrad, "empty", {{kReal, {0}}, {kReal, {0}}}});
  t.push_back({&kCast, "to f64", {{kReal, {2, 3}}}, one("dtype", DType::kF64)});
  t.push_back({&kCast, "to integers", {{kReal, {2, 3}}}, one("dtype", DType::kI32)});
  t.push_back({&kCast, "from bytes", {{kBytes, {5}}}, one("dtype", DType::kF32)});
  t.push_back({&kCast, "to bool", {{kInts, {5}}}, one("dtype", DType::kBool)});
}

}  // namespace trireme::op::testing
