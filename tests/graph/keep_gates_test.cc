// Two layers of lstm with their gradients: what the forward pass keeps gives the same gradients.
#include "trireme/graph/pass/keep_gates.h"

#include <gtest/gtest.h>

#include "tests/graph/same_outputs.h"
#include "tests/graph/small_net.h"
#include "trireme/base/rng.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
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
    graph = *merge_common(*eliminate_dead_code(graph, {}));
  }
};

TEST(KeepGates, GivesTheGradientsOfTheOpsThatItReplaces) {
  const Layers layers(true);
  const Graph kept = *keep_gates(layers.graph);
  ASSERT_TRUE(verify(kept).ok());
  EXPECT_EQ(count_ops(kept, "lstm_kept"), 2);
  EXPECT_EQ(count_ops(kept, "lstm_kept_grad"), 2);
  EXPECT_EQ(count_ops(kept, "lstm") + count_ops(kept, "lstm_grad"), 0);
  expect_same_results(kept, layers.graph, layers.feeds, 1e-5, "kept");
}

TEST(KeepGates, LeavesAnLstmWithoutGradientAlone) {
  const Layers layers(false);
  const Graph kept = *keep_gates(layers.graph);
  EXPECT_EQ(count_ops(kept, "lstm"), 2);
  expect_same_results(kept, layers.graph, layers.feeds, 0, "kept");
}

TEST(KeepReserves, GivesTheGradientsOfTheOpsThatItReplaces) {
  const Layers layers(true);
  const Graph kept = *keep_reserves(layers.graph, [](const Node&, std::span<const TensorType>) {
    return Reserve{.algorithm = 1, .bytes = 24};
  });
  ASSERT_TRUE(verify(kept).ok());
  EXPECT_EQ(count_ops(kept, "recurrent_kept"), 2);
  EXPECT_EQ(count_ops(kept, "recurrent_kept_grad"), 2);
  EXPECT_EQ(count_ops(kept, "lstm") + count_ops(kept, "lstm_grad"), 0);
  expect_same_results(kept, layers.graph, layers.feeds, 0, "kept");
}

TEST(KeepReserves, LeavesLayersAloneOfWhichNothingIsKept) {
  const Layers layers(true);
  const Graph kept = *keep_reserves(
      layers.graph, [](const Node&, std::span<const TensorType>) -> std::optional<Reserve> { return {}; });
  EXPECT_EQ(count_ops(kept, "lstm"), 2);
  EXPECT_EQ(count_ops(kept, "lstm_grad"), 2);
}

}  // namespace
}  // namespace trireme::graph
