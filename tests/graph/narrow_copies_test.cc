// Two layers with a relu between them in mixed precision: the gradient of relu reads what the product read.
#include <gtest/gtest.h>

#include "tests/graph/run_pass.h"
#include "tests/graph/same_outputs.h"
#include "tests/graph/small_net.h"
#include "trireme/base/rng.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

struct Layers {
  Graph graph;
  Feeds feeds;
  explicit Layers(DType low) {
    Graph plain;
    Builder b(plain);
    Philox rng(11);
    const auto variable = [&](const std::string& name, const Shape& s) {
      return random_variable(b, rng, feeds, name, s);
    };
    const Value x = variable("x", {6, 8}), w1 = variable("w1", {8, 16});
    const Value h = b.relu(b.add(b.matmul(x, w1), variable("shift", {6, 16})));
    const Value y = b.matmul(h, variable("w2", {16, 4}));
    b.output("loss", b.sum(b.mul(y, y)));
    TR_CHECK(b.status().ok(), "{}", b.status().to_string());
    graph = *lower_precision(plain, low);
    add_gradient_outputs(graph);
    graph = *run_pass("cse", *eliminate_dead_code(graph, {}));
  }
};

// Nodes that read the output of relu.
int readers_of_relu(const Graph& graph) {
  int n = 0;
  for (std::int32_t i = 0; i < graph.size(); ++i)
    for (const Value v : graph.node(i).inputs) n += graph.node(v.node).def == &op::kRelu ? 1 : 0;
  return n;
}

TEST(NarrowCopies, LeaveTheProductsCopyAsTheOnlyReaderOfRelu) {
  const Layers layers(DType::kBF16);
  const Graph narrow = *run_pass("narrow_copies", layers.graph);
  ASSERT_TRUE(verify(narrow).ok());
  EXPECT_EQ(readers_of_relu(layers.graph), 2);
  EXPECT_EQ(readers_of_relu(narrow), 1) << narrow.to_text();
  expect_same_results(narrow, layers.graph, layers.feeds, 0, "narrow");
  const Graph fused = *run_pass("fuse", *eliminate_dead_code(*run_pass("absorb_casts", narrow), {}));
  expect_same_results(fused, layers.graph, layers.feeds, 0, "fused");
}

// Readers of a bias's gradient, before and after: the sum reads what the product reads.
TEST(NarrowCopies, LetSumsForBiasesReadWhatProductsRead) {
  Graph plain;
  Feeds feeds;
  Builder b(plain);
  Philox rng(12);
  const auto variable = [&](const std::string& name, const Shape& s) {
    return random_variable(b, rng, feeds, name, s);
  };
  const Value h = b.tanh(b.add_node(
      op::kBiasAdd, {b.matmul(variable("x", {6, 8}), variable("w", {8, 16})), variable("b", {16})}));
  b.output("loss", b.sum(b.mul(h, h)));
  Graph graph = *lower_precision(plain, DType::kBF16);
  add_gradient_outputs(graph);
  graph = *run_pass("cse", *eliminate_dead_code(graph, {}));
  const Graph narrow =
      *run_pass("absorb_casts", *run_pass("narrow_copies", graph), {.adaptable = {"bias_grad"}});
  ASSERT_TRUE(verify(narrow).ok());
  EXPECT_EQ(count_ops(narrow, "bias_grad"), 1) << narrow.to_text();
  EXPECT_EQ(count_formed(narrow, "bias_grad"), 1) << narrow.to_text();
  expect_same_results(narrow, graph, feeds, 1e-2, "narrow");
}

// A convolution, a bias, relu and a pooling, as in AlexNet: the image between them is there in bf16 only.
TEST(NarrowCopies, LetPoolingReadWhatTheProductMade) {
  Graph plain;
  Feeds feeds;
  Builder b(plain);
  Philox rng(13);
  const auto variable = [&](const std::string& name, const Shape& s) {
    return random_variable(b, rng, feeds, name, s);
  };
  const Value y = b.relu(b.add_node(
      op::kBiasAdd, {b.add_node(op::kConv2d, {variable("x", {2, 3, 9, 9}), variable("w", {4, 3, 3, 3})}),
                     variable("b", {4})}));
  const std::int64_t three = 3, two = 2;
  const Value small = b.add_node(
      op::kMaxPool2d, {y}, {{"window_h", three}, {"window_w", three}, {"stride_h", two}, {"stride_w", two}});
  b.output("loss", b.sum(b.mul(small, small)));
  TR_CHECK(b.status().ok(), "{}", b.status().to_string());
  Graph graph = *lower_precision(plain, DType::kBF16);
  add_gradient_outputs(graph);
  graph = *run_pass("cse", *eliminate_dead_code(graph, {}));
  const Graph narrow = *run_pass("narrow_copies", graph);
  ASSERT_TRUE(verify(narrow).ok());
  EXPECT_EQ(readers_of_relu(narrow), 1) << narrow.to_text();
  expect_same_results(narrow, graph, feeds, 2e-2, "narrow");
  const Graph absorbed = *run_pass(
      "fuse", *eliminate_dead_code(*run_pass("absorb_casts", narrow,
                                             {.adaptable = {"max_pool2d", "max_pool2d_grad", "bias_grad"}}),
                                   {}));
  expect_same_results(absorbed, narrow, feeds, 0, "absorbed");
  for (std::int32_t id = 0; id < absorbed.size(); ++id)  // all images
    for (const TensorType& type : absorbed.node(id).outputs)
      EXPECT_TRUE(type.shape.rank() != 4 || type.shape[2] != 7 || type.dtype == DType::kBF16)
          << absorbed.to_text();
}

TEST(NarrowCopies, LeaveF16WhoseZeroIsTooLarge) {
  const Layers layers(DType::kF16);
  EXPECT_EQ(run_pass("narrow_copies", layers.graph)->to_text(), layers.graph.to_text());
}

}  // namespace
}  // namespace trireme::graph
