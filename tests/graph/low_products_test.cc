// widen_products, bias_products, scalar_fills and round_in_products on a small net in mixed precision: what
// is rounded less, what is joined, what is not written, what is not kept.
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

// Sigmoid between two layers with biases, and a classifier's loss.
struct Net {
  Graph graph;
  Feeds feeds;

  explicit Net(DType low = DType::kBF16) {
    Graph plain;
    Builder b(plain);
    Philox rng(21);
    const auto variable = [&](const std::string& name, const Shape& s) {
      return random_variable(b, rng, feeds, name, s);
    };
    const auto layer = [&](Value x, const std::string& name, std::int64_t from, std::int64_t to) {
      const Value y =
          b.add_node(op::kMatmul, {x, variable(name + "/weight", {to, from})}, {{"transpose_b", true}});
      return b.add_node(op::kBiasAdd, {y, variable(name + "/bias", {to})});
    };
    const Value h = b.sigmoid(layer(variable("x", {6, 8}), "first", 8, 16));
    const Value labels = b.input("labels", DType::kI32, {6}), weights = b.input("weights", DType::kF32, {6});
    Tensor ids = *Tensor::allocate(cpu_device(), {DType::kI32, Shape{6}}),
           shares = *Tensor::allocate(cpu_device(), {DType::kF32, Shape{6}});
    for (int i = 0; i < 6; ++i) ids.data<std::int32_t>()[i] = i % 4, shares.data<float>()[i] = 0.5F;
    feeds.emplace("labels", ids);
    feeds.emplace("weights", shares);
    const Value logits = layer(h, "second", 16, 4);
    b.output("loss", b.sum(b.add_node(op::kSoftmaxCrossEntropy, {logits, labels, weights})));
    TR_CHECK(b.status().ok(), "{}", b.status().to_string());
    graph = *lower_precision(plain, low);
    add_gradient_outputs(graph);
    graph = *run_pass("cse", *eliminate_dead_code(graph, {}));
  }
};

TEST(WidenProducts, KeepGradientsOfWeightsInF32) {
  const Net net;
  const Graph wide = *run_pass("widen_products", net.graph);
  ASSERT_TRUE(verify(wide).ok()) << verify(wide).to_string();
  EXPECT_EQ(count_formed(wide, "matmul"), 3) << wide.to_text();  // of both weights and of x
  EXPECT_EQ(count_ops(wide, "matmul"), count_ops(net.graph, "matmul"));
  expect_same_results(wide, net.graph, net.feeds, 5e-3, "wide");
}

// Only the first layer has fewer rows (6) than columns (16): the second's copy is read by a product of 6 x 4.
TEST(RoundInProducts, ReadVariablesAndKeepNoCopy) {
  const Net net;
  const Graph late = *eliminate_dead_code(*run_pass("round_in_products", net.graph), {});
  ASSERT_TRUE(verify(late).ok()) << verify(late).to_string();
  EXPECT_EQ(count_ops(late, "cast"), count_ops(net.graph, "cast") - 1) << late.to_text();
  EXPECT_GE(count_formed(late, "matmul"), 1);
  expect_same_results(late, net.graph, net.feeds, 0, "late");
}

TEST(BiasProducts, JoinTheLogitsAndLeaveWhatIsReadInF32) {
  const Net net;
  const Graph joined = *run_pass("join_losses", net.graph),
              after = *eliminate_dead_code(*run_pass("bias_products", joined), {});
  ASSERT_TRUE(verify(after).ok()) << verify(after).to_string();
  EXPECT_EQ(count_ops(after, "matmul_bias_act"), 1) << after.to_text();
  EXPECT_EQ(count_ops(after, "bias_add"), 1);  // sigmoid reads it in f32
  expect_same_results(after, net.graph, net.feeds, 1e-2, "joined");
  EXPECT_EQ(count_ops(*run_pass("bias_products", net.graph), "matmul_bias_act"),
            0);  // the loss alone reads f32
}

TEST(ScalarFills, WriteNoTensorOfOnes) {
  const Net net;
  const Graph after = *eliminate_dead_code(*run_pass("scalar_fills", net.graph), {});
  int tensors = 0;
  for (std::int32_t i = 0; i < after.size(); ++i)
    tensors += after.node(i).def == &op::kFill && after.node(i).outputs[0].shape.rank() > 1;
  EXPECT_EQ(tensors, 0) << after.to_text();
  expect_same_results(after, net.graph, net.feeds, 0, "scalars");
}

TEST(NarrowCopies, LetGradientsOfSigmoidReadWhatTheNextProductReads) {
  const Net net;
  const Graph narrow = *run_pass("narrow_copies", net.graph);
  ASSERT_TRUE(verify(narrow).ok());
  for (std::int32_t i = 0; i < narrow.size(); ++i)
    for (const Value v : narrow.node(i).inputs)
      EXPECT_TRUE(narrow.node(v.node).def != &op::kSigmoid || narrow.node(i).def == &op::kCast)
          << narrow.to_text();
  expect_same_results(narrow, net.graph, net.feeds, 1e-2, "narrow");
}

}  // namespace
}  // namespace trireme::graph
