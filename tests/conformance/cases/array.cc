// Ops that move elements.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

void add_array(std::vector<OpCase>& t) {
  t.push_back({&kReshape, "keeps the batch", {{kReal, {4, 2, 3}}}, one("shape", Ints{4, -1})});
  t.push_back({&kReshape, "all new", {{kReal, {4, 3}}}, one("shape", Ints{2, 6})});
  t.push_back({&kReshape, "to scalar", {{kReal, {1, 1}}}, one("shape", Ints{})});
  t.push_back({&kReshape, "empty", {{kReal, {0, 6}}}, one("shape", Ints{0, 2, 3})});
  t.push_back({&kTranspose, "matrix", {{kReal, {3, 4}}}});
  t.push_back({&kTranspose, "rotation", {{kReal, {2, 3, 4}}}, one("order", Ints{2, 0, 1})});
  t.push_back({&kTranspose, "scalar", {{kReal, {}}}});
  t.push_back({&kTranspose, "bytes", {{kBytes, {2, 5}}}});
  t.push_back({&kFill, "floats", {}, {{"value", 1.5}, {"dtype", DType::kF64}, {"shape", Ints{3, 2}}}});
  t.push_back({&kFill, "integers", {}, {{"value", 7.0}, {"dtype", DType::kI64}, {"shape", Ints{}}}});
  t.push_back({&kFill, "empty", {}, one("shape", Ints{0})});
  t.push_back({&kBroadcastTo, "row", {{kReal, {4}}}, one("shape", Ints{3, 4})});
  t.push_back({&kBroadcastTo, "column", {{kReal, {2, 3, 1}}}, one("shape", Ints{2, 3, 5})});
  t.push_back({&kBroadcastTo, "scalar", {{kReal, {}}}, one("shape", Ints{2, 2})});
  t.push_back({&kBroadcastTo, "to empty", {{kReal, {1, 3}}}, one("shape", Ints{0, 3})});
  t.push_back({&kCount, "all", {{kReal, {3, 4}}}});
  t.push_back({&kCount, "one axis", {{kReal, {3, 4}}}, one("axes", Ints{1})});
}

}  // namespace trireme::op::testing
