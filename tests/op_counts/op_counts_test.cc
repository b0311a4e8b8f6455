// Flops of every row's cost function against the operations that its reference kernel really does.
#include "tests/conformance/harness.h"
#include "tests/op_counts/counted.h"

namespace trireme::op::testing {
namespace {
class OpCounts : public OpConformance {};

TEST_P(OpCounts, AreWhatTheCostFunctionSays) {
  if (!def().reference) return;
  // Integers are not counted, so an op is counted on floating inputs (or on none, where it makes its output).
  const bool typed =
      std::any_of(c().inputs.begin(), c().inputs.end(), [](const Input& i) { return is_typed(i.fill); });
  if (!c().inputs.empty() && !(typed && contains(def().dtypes, DType::kF64))) return;
  const auto inputs = make_inputs(c(), DType::kF64);
  const auto cost = def().cost(types_of(inputs), out_types(inputs), attrs());
  Counted::flops = 0;
  ASSERT_TRUE(run_op(def(), inputs, c().attrs).ok());
  const auto counted = static_cast<double>(Counted::flops);
  if (c().skips_work) {
    EXPECT_LE(counted, cost.flops);
  } else {
    EXPECT_EQ(counted, cost.flops);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OpCounts, all_cases(), name_of_case);

}  // namespace
}  // namespace trireme::op::testing
