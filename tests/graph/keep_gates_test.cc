// Two layers of lstm with their gradients: what the forward pass keeps gives the same gradients.
#include "trireme/graph/pass/passes.h"

#include <gtest/gtest.h>

#include "tests/graph/run_pass.h"
#include "tests/graph/same_outputs.h"
#include "tests/graph/small_net.h"
#include "trireme/base/rng.h"
#include "trireme/graph/builder.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

constexpr std::int64_t kSteps = 4, kBatch = 3, kUnits = 5;

struct Layers {
  Graph graph;
  Feeds feeds;

  explicit Layers(bool gradients) {
    Builder b(graph);
    Philox rng(5);
    const auto variable = [&](const std::string& name, const Shape& s) {
      return random_variable(b, rng, feeds, name, s);
    };
    Value y = variable("x", {kSteps, kBatch, kUnits});
    for (const std::string layer : {"a", "b"}) {
      std::vector<Value> in{y, variable("h0" + layer, {kBatch, kUnits}),
                            variable("c0" + layer, {kBatch, kUnits})};
      for (const char* w : {"w_ih", "w_hh"}) in.push_back(variable(w + layer, {4 * kUnits, kUnits}));
      for (const char* bias : {"b_ih", "b_hh"}) in.push_back(variable(bias + layer, {4 * kUnits}));
      y = b.add_node(op::kLstm, in, {});
    }
    b.output("loss", b.sum(b.mul(y, y)));
    TR_CHECK(b.status().ok(), "{}", b.status().to_string());
    if (!gradients) return;
    add_gradient_outputs(graph);
    graph = *run_pass("cse", *eliminate_dead_code(graph, {}));
  }
};

TEST(KeepGates, GivesTheGradientsOfTheOpsThatItReplaces) {
  const Layers layers(true);
  const Graph kept = *run_pass("keep_gates", layers.graph);
  ASSERT_TRUE(verify(kept).ok());
  EXPECT_EQ(count_ops(kept, "lstm_kept"), 2);
  EXPECT_EQ(count_ops(kept, "lstm_kept_grad"), 2);
  EXPECT_EQ(count_ops(kept, "lstm") + count_ops(kept, "lstm_grad"), 0);
  expect_same_results(kept, layers.graph, layers.feeds, 1e-5, "kept");
}

TEST(KeepGates, LeavesAnLstmWithoutGradientAlone) {
  const Layers layers(false);
  const Graph kept = *run_pass("keep_gates", layers.graph);
  EXPECT_EQ(count_ops(kept, "lstm"), 2);
  expect_same_results(kept, layers.graph, layers.feeds, 0, "kept");
}

TEST(LowerGates, KeepsAndMultipliesInSixteenBitsAndGivesWeightsF32) {
  const Layers layers(true);
  const Graph kept = *run_pass("keep_gates", layers.graph);
  const Graph low =
      *eliminate_dead_code(*run_pass("cse", *run_pass("lower_gates", kept, {.dtype = DType::kBF16})), {});
  ASSERT_TRUE(verify(low).ok()) << verify(low).to_string();
  EXPECT_EQ(count_ops(low, "lstm_kept"), 2);
  EXPECT_EQ(count_formed(low, "lstm_kept_grad"), 2);
  EXPECT_EQ(count_ops(low, "lstm_kept_grad"), 2);
  for (std::int32_t id = 0; id < low.size(); ++id) {
    const Node& node = low.node(id);
    if (node.def->name == "lstm_kept") {
      for (const TensorType& t : node.outputs) EXPECT_EQ(t.dtype, DType::kBF16);
    }
    if (node.forms.is_plain()) continue;
    for (const Value v : node.inputs) EXPECT_EQ(low.type(v).dtype, DType::kBF16);
    for (std::size_t k = 0; k < node.outputs.size(); ++k)
      EXPECT_EQ(node.outputs[k].dtype, k < 3 ? DType::kBF16 : DType::kF32) << k;
    // What was kept comes as it is.
    EXPECT_EQ(low.node(node.inputs[5].node).def->name, "lstm_kept");
    EXPECT_EQ(low.node(node.inputs[6].node).def->name, "lstm_kept");
  }
  expect_same_results(low, layers.graph, layers.feeds, 0.02, "low");
}

TEST(LowerGates, LeavesOtherDtypesAndOtherOpsAlone) {
  const Layers layers(true);
  const Graph same = *run_pass("lower_gates", layers.graph, {.dtype = DType::kBF16});
  EXPECT_EQ(same.to_text(), layers.graph.to_text());
  const Graph low = *run_pass("lower_gates", *run_pass("keep_gates", layers.graph), {.dtype = DType::kBF16});
  EXPECT_EQ(run_pass("lower_gates", low, {.dtype = DType::kBF16})->to_text(), low.to_text());
}

TEST(KeepReserves, GivesTheGradientsOfTheOpsThatItReplaces) {
  const Layers layers(true);
  const Graph kept =
      *run_pass("keep_reserves", layers.graph, {.reserve_of = [](const Node&, std::span<const TensorType>) {
                  return Reserve{.algorithm = 1, .bytes = 24};
                }});
  ASSERT_TRUE(verify(kept).ok());
  EXPECT_EQ(count_ops(kept, "recurrent_kept"), 2);
  EXPECT_EQ(count_ops(kept, "recurrent_kept_grad"), 2);
  EXPECT_EQ(count_ops(kept, "lstm") + count_ops(kept, "lstm_grad"), 0);
  expect_same_results(kept, layers.graph, layers.feeds, 0, "kept");
}

TEST(KeepReserves, LeavesLayersAloneOfWhichNothingIsKept) {
  const Layers layers(true);
  const Graph kept = *run_pass(
      "keep_reserves", layers.graph,
      {.reserve_of = [](const Node&, std::span<const TensorType>) -> std::optional<Reserve> { return {}; }});
  EXPECT_EQ(count_ops(kept, "lstm"), 2);
  EXPECT_EQ(count_ops(kept, "lstm_grad"), 2);
}

}  // namespace
}  // namespace trireme::graph
