// Costs of every row: compulsory traffic, work and depth. Flops are counted in tests/op_counts.
#include "tests/conformance/harness.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {
class OpCostConformance : public OpConformance {};

TEST_P(OpCostConformance, MovesItsInputsAndOutputsOnce) {
  const auto in = types_of(make_inputs(c(), DType::kF32)), out = out_types(make_inputs(c(), DType::kF32));
  const cost::OpCost cost = def().cost(in, out, attrs());
  double bytes = 0;
  for (const auto& t : in) bytes += def().has(kTypesOnly) ? 0 : static_cast<double>(t.num_bytes());
  for (const auto& t : out) bytes += static_cast<double>(t.num_bytes());
  for (const int i : def().mutated_inputs) {
    if (i != 0) bytes += static_cast<double>(in[static_cast<std::size_t>(i)].num_bytes());  // 0 is the output
  }
  if (def().has(kFeed)) bytes = 0;
  if (c().reads_part) {
    EXPECT_LE(cost.bytes, bytes);
    EXPECT_GE(cost.bytes, 0);
  } else {
    EXPECT_EQ(cost.bytes, bytes);
  }
}

TEST_P(OpCostConformance, HasWorkAndDepth) {
  const auto in = types_of(make_inputs(c(), DType::kF32)), out = out_types(make_inputs(c(), DType::kF32));
  const cost::OpCost cost = def().cost(in, out, attrs());
  EXPECT_GE(cost.flops, 0);
  EXPECT_TRUE(std::isfinite(cost.work) && std::isfinite(cost.depth));
  double written = 0;
  for (const auto& t : out) written += static_cast<double>(t.shape.num_elems());
  for (const auto& t : in) written *= t.shape.num_elems() > 0 ? 1 : 0;
  if (def().has(kFeed)) {
    EXPECT_EQ(cost.work, 0);
    EXPECT_EQ(cost.depth, 0);
  } else if (written > 0) {
    EXPECT_GE(cost.depth, 1);
    EXPECT_GE(cost.work, cost.depth) << "work " << cost.work << ", depth " << cost.depth;
    // A multiply-add is one unit of work, so flops are at most twice the work.
    EXPECT_LE(cost.flops, 2 * cost.work);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OpCostConformance, all_cases(), name_of_case);

}  // namespace
}  // namespace trireme::op::testing
