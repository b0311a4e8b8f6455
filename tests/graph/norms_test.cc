// A small residual network with gradients: norms take over what stands around them, and in mixed precision no
// image is kept in f32.
#include "trireme/graph/pass/passes.h"

#include <gtest/gtest.h>

#include "tests/graph/run_pass.h"
#include "tests/graph/same_outputs.h"
#include "tests/graph/small_net.h"
#include "trireme/base/rng.h"
#include "trireme/graph/builder.h"
#include "trireme/op/fused/batch_norm_relu.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

constexpr DType kF32 = DType::kF32;
using Names = std::set<std::string, std::less<>>;

// Stem, a block with a short cut, a block with a projection, a mean over planes.
struct Net {
  Graph graph, plain;
  Feeds feeds;
  Philox rng{5};

  Value variable(Builder& b, const std::string& name, const Shape& s) {
    Tensor t = *Tensor::allocate(cpu_device(), {kF32, s});
    for (float& f : t.values<float>()) f = rng.next_uniform() - 0.5F;
    feeds.emplace(name, t);
    return b.variable(name, kF32, s);
  }
  Value normed(Builder& b, Value x, const std::string& name, std::int64_t channels) {
    const std::int64_t one = 1;
    const Value w = variable(b, name + "/w", {channels, b.type(x).shape[1], 3, 3});
    const Value y = b.add_node(op::kConv2d, {x, w}, {{"pad_h", one}, {"pad_w", one}});
    const Value bn = b.add_node(op::kBatchNorm, {y, variable(b, name + "/scale", {channels}),
                                                 variable(b, name + "/bias", {channels})});
    b.output(name + "/mean", b.tanh({bn.node, 1}));
    return bn;
  }

  explicit Net(std::optional<DType> low) {
    Builder b(plain);
    const Value h = b.relu(normed(b, variable(b, "x", {2, 3, 6, 4}), "stem", 4));
    const Value first = normed(b, b.relu(normed(b, h, "a1", 4)), "a2", 4);
    const Value z = b.relu(b.add(first, h));
    const Value second = normed(b, b.relu(normed(b, z, "b1", 4)), "b2", 8);
    const Value out = b.relu(b.add(second, normed(b, z, "down", 8)));
    const Value mean = b.add_node(op::kMean, {out}, {{"axes", std::vector<std::int64_t>{2, 3}}});
    const Value logits = b.matmul(mean, variable(b, "fc", {8, 4}));
    b.output("loss", b.sum(b.mul(logits, b.tanh(logits))));
    TR_CHECK(b.status().ok(), "{}", b.status().to_string());
    graph = low ? *lower_precision(plain, *low) : plain;
    add_gradient_outputs(graph);
    graph = *run_pass("cse", *eliminate_dead_code(graph, {}));
  }
};

TEST(FuseNorms, TakeReluAndResidualIntoBothDirections) {
  const Net net(std::nullopt);
  const Graph fused = *run_pass("fuse_norms", net.graph);
  ASSERT_TRUE(verify(fused).ok()) << verify(fused).to_string();
  EXPECT_EQ(count_ops(fused, "relu") + count_ops(fused, "relu_grad"), 0) << fused.to_text();
  EXPECT_EQ(count_ops(fused, "batch_norm_relu"), 5);
  EXPECT_EQ(count_ops(fused, "batch_norm_relu_grad"), 3);
  EXPECT_EQ(count_ops(fused, "batch_norm_add_relu_grad"), 2);
  EXPECT_EQ(count_ops(fused, "batch_norm"), 1);  // the other operand of the sum with a projection
  EXPECT_EQ(count_ops(fused, "batch_norm_grad"), 1);
  EXPECT_EQ(count_ops(fused, "add"), 2);  // of gradients: of the stem, of the logits
  expect_same_results(fused, net.graph, net.feeds, 1e-5, "fused");
  EXPECT_EQ(run_pass("fuse_norms", fused)->to_text(), fused.to_text());
}

TEST(FuseNorms, LeaveWhatOthersRead) {
  Graph graph;
  Builder b(graph);
  const Value x = b.variable("x", kF32, {4, 3}), c = b.variable("c", kF32, {3});
  const Value read = b.add_node(op::kBatchNorm, {x, c, c}), kept = b.add_node(op::kBatchNorm, {x, c, c});
  b.output("y", b.add(b.relu(read), read));
  b.output("normed", kept);
  b.output("z", b.relu(kept));
  const Value twice = b.add_node(op::kBatchNorm, {b.tanh(x), c, c});
  b.output("twice", b.relu(b.add(twice, twice)));
  ASSERT_TRUE(b.status().ok());
  EXPECT_EQ(run_pass("fuse_norms", graph)->to_text(), graph.to_text());
}

TEST(FuseNorms, WorkWithoutGradients) {
  Net net(std::nullopt);
  const Graph fused = *run_pass("fuse_norms", net.plain);
  EXPECT_EQ(count_ops(fused, "batch_norm_relu"), 5);
  expect_same_results(fused, net.plain, net.feeds, 1e-5, "forward");
}

// Every image between the first and the last convolution, as the GPU gets them.
TEST(NarrowNorms, KeepNoImageInF32) {
  const Names turnable{"conv2d", "conv2d_input_grad", "conv2d_filter_grad"};
  const Names adaptable{"batch_norm",           "batch_norm_grad",          "batch_norm_relu", "mean",
                        "batch_norm_relu_grad", "batch_norm_add_relu_grad", "transpose"};
  for (const DType low : {DType::kBF16, DType::kF16}) {
    const Net net(low);
    const Graph fused = *run_pass("fuse_norms", net.graph), narrow = *run_pass("narrow_norms", fused);
    ASSERT_TRUE(verify(narrow).ok()) << verify(narrow).to_string();
    expect_same_results(narrow, net.graph, net.feeds, 0.05, "narrow");
    EXPECT_EQ(run_pass("narrow_norms", narrow)->to_text(), narrow.to_text());
    const Graph turned =
        *run_pass("hoist_reshapes", *run_pass("channels_last", narrow, {.turnable = turnable}));
    const Graph absorbed = *run_pass(
        "fuse", *eliminate_dead_code(*run_pass("absorb_casts", turned, {.adaptable = adaptable}), {}));
    expect_same_results(absorbed, narrow, net.feeds, 0.02, "absorbed");
    for (std::int32_t i = 0; i < absorbed.size(); ++i)
      for (const TensorType& t : absorbed.node(i).outputs)
        EXPECT_FALSE(t.dtype == kF32 && t.shape.rank() == 2 && t.shape[0] == 48)
            << absorbed.node(i).name << ": " << t.to_string() << "\n"
            << absorbed.to_text();
  }
}

TEST(NarrowNorms, LeaveF32AsItIs) {
  const Net net(std::nullopt);
  EXPECT_EQ(run_pass("narrow_norms", net.graph)->to_text(), net.graph.to_text());
}

}  // namespace
}  // namespace trireme::graph
