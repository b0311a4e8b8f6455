// A relu before max pooling: its gradient is masked by what the pooling gave.
#include "trireme/graph/pass/passes.h"

#include <gtest/gtest.h>

#include "tests/graph/run_pass.h"
#include "tests/graph/same_outputs.h"
#include "tests/graph/small_net.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

TEST(MaskPooled, GivesTheSameGradientsWithoutTheLargerImage) {
  using I = std::int64_t;
  Graph graph;
  Builder b(graph);
  Philox rng(9);
  Feeds feeds;
  const Value x = random_variable(b, rng, feeds, "x", {2, 3, 9, 8});
  const Value shift = random_variable(b, rng, feeds, "shift", {3});
  const Value y = b.add_node(op::kRelu, {b.bias_add(x, shift)});
  const Value pooled = b.add_node(op::kMaxPool2d, {y},
                                  {{"window_h", I{3}},
                                   {"window_w", I{3}},
                                   {"stride_h", I{2}},
                                   {"stride_w", I{2}},
                                   {"pad_h", I{1}},
                                   {"pad_w", I{1}}});
  b.output("loss", b.sum(b.mul(pooled, b.tanh(pooled))));
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  add_gradient_outputs(graph);
  const Graph places = *run_pass("keep_places", *run_pass("cse", *eliminate_dead_code(graph, {}))),
              masked = *eliminate_dead_code(*run_pass("mask_pooled", places), {});
  ASSERT_TRUE(verify(masked).ok()) << verify(masked).to_string();
  EXPECT_EQ(count_ops(masked, "max_pool2d_places_grad"), 1) << masked.to_text();
  for (std::int32_t i = 0; i < masked.size(); ++i) {
    const Node& node = masked.node(i);
    if (node.def != &op::kReluGrad && node.def != &op::kBiasGrad) continue;
    EXPECT_EQ(masked.type(node.inputs[0]).shape, (Shape{2, 3, 5, 4}));
  }
  expect_same_results(masked, places, feeds, 1e-6, "masked");
  EXPECT_EQ(run_pass("mask_pooled", masked)->to_text(), masked.to_text());
}

}  // namespace
}  // namespace trireme::graph
