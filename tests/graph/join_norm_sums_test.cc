// A residual beside a layer norm and a product in mixed precision: the gradient's sum is made by the norm's.
#include "trireme/graph/pass/join_norm_sums.h"

#include <gtest/gtest.h>

#include "tests/graph/same_outputs.h"
#include "tests/graph/small_net.h"
#include "trireme/base/rng.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

// Two blocks x + norm(x) w.
struct Blocks {
  Graph graph;
  Feeds feeds;

  explicit Blocks(DType low) {
    Graph plain;
    Builder b(plain);
    Philox rng(9);
    const auto variable = [&](const std::string& name, const Shape& s) {
      return random_variable(b, rng, feeds, name, s);
    };
    Value x = b.matmul(variable("x", {6, 4}), variable("in", {4, 8}));
    for (const char* const name : {"first", "second"}) {
      const std::string at = name;
      const Value y =
          b.add_node(op::kLayerNorm, {x, variable(at + "/scale", {8}), variable(at + "/bias", {8})});
      x = b.add(x, b.matmul(y, variable(at + "/weight", {8, 8})));
    }
    b.output("loss", b.sum(b.mul(x, b.tanh(x))));
    TR_CHECK(b.status().ok(), "{}", b.status().to_string());
    graph = low == DType::kF32 ? plain : *lower_precision(plain, low);
    add_gradient_outputs(graph);
    graph = *merge_common(*eliminate_dead_code(graph, {}));
  }
};

TEST(JoinNormSums, GiveTheSameBitsFromOneNodePerNorm) {
  for (const DType low : {DType::kBF16, DType::kF16}) {
    const Blocks model(low);
    const Graph joined = *join_norm_sums(model.graph);
    ASSERT_TRUE(verify(joined).ok()) << verify(joined).to_string();
    EXPECT_EQ(count_ops(joined, "layer_norm_grad_sum"), 2) << joined.to_text();
    EXPECT_EQ(count_ops(joined, "layer_norm_grad"), 0);
    expect_same_results(joined, model.graph, model.feeds, 0, "joined");
    const Graph absorbed =
        *eliminate_dead_code(*absorb_casts(joined, {"layer_norm_grad_sum", "layer_norm"}), {});
    expect_same_results(absorbed, model.graph, model.feeds, 0, "absorbed");
  }
}

TEST(JoinNormSums, LeaveSumsThatNobodyReadsIn16Bits) {
  const Blocks model(DType::kF32);
  EXPECT_EQ(join_norm_sums(model.graph)->to_text(), model.graph.to_text());
}

}  // namespace
}  // namespace trireme::graph
