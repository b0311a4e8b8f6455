// What a branch gives is added to its residual by the layer norm that reads the sum.
#include "trireme/graph/pass/passes.h"

#include <gtest/gtest.h>

#include "tests/graph/residual_blocks.h"
#include "tests/graph/run_pass.h"
#include "tests/graph/same_outputs.h"

namespace trireme::graph {
namespace {

TEST(JoinResiduals, GiveTheSameBitsFromOneNodePerNorm) {
  for (const DType low : {DType::kF32, DType::kBF16, DType::kF16}) {
    const ResidualBlocks model(low);
    const Graph joined = *run_pass("join_residuals", model.graph);
    ASSERT_TRUE(verify(joined).ok()) << verify(joined).to_string();
    EXPECT_EQ(count_ops(joined, "residual_layer_norm"), 1) << joined.to_text();
    EXPECT_EQ(count_ops(joined, "layer_norm"), 1);  // the first one reads a product
    EXPECT_EQ(count_ops(joined, "bias_add"), 1);    // behind the last block there is no norm
    expect_same_results(joined, model.graph, model.feeds, 0, "joined");
    const Graph absorbed = *eliminate_dead_code(
        *run_pass("absorb_casts", joined,
                  {.adaptable = {"residual_layer_norm", "layer_norm", "layer_norm_grad"}}),
        {});
    expect_same_results(absorbed, model.graph, model.feeds, 0, "absorbed");
  }
}

// x + (a w + b) as rows, normalised as [2, 3, 8]; the norm's variables come after the sum.
TEST(JoinResiduals, LookThroughReshapesAndAskForVariablesEarlier) {
  Graph graph;
  Builder b(graph);
  Philox rng(3);
  Feeds feeds;
  const auto variable = [&](const std::string& name, const Shape& s) {
    return random_variable(b, rng, feeds, name, s);
  };
  const Value branch = b.bias_add(b.matmul(variable("a", {6, 4}), variable("w", {4, 8})), variable("b", {8}));
  const Value sum = b.add(branch, variable("x", {6, 8}));
  const Value y =
      b.add_node(op::kLayerNorm, {b.reshape(sum, {2, 3, 8}), variable("scale", {8}), variable("bias", {8})});
  b.output("y", y);
  b.output("sum", sum);
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  const Graph joined = *eliminate_dead_code(*run_pass("join_residuals", graph), {});
  EXPECT_EQ(count_ops(joined, "residual_layer_norm"), 1) << joined.to_text();
  expect_same_results(joined, graph, feeds, 0, "joined");
}

}  // namespace
}  // namespace trireme::graph
