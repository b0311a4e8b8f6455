// A convolutional net with gradients whose images are kept with the channels last: the same results, and
// images are turned around at the borders only.
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

constexpr DType kF32 = DType::kF32;
const std::set<std::string, std::less<>> kTurnable{
    "conv2d",          "conv2d_input_grad", "conv2d_filter_grad", "max_pool2d",
    "max_pool2d_grad", "avg_pool2d",        "avg_pool2d_grad"};

// conv - norm - relu - pool - conv with bias - response norm - concat - conv - sum with a short cut - mean,
// and a matmul of the flat image.
struct Net {
  Graph graph;
  Feeds feeds;
  explicit Net(std::optional<DType> low) {
    Graph plain;
    Builder b(plain);
    Philox rng(7);
    const auto variable = [&](const std::string& name, const Shape& s) {
      Tensor t = *Tensor::allocate(cpu_device(), {kF32, s});
      for (float& f : t.values<float>()) f = rng.next_uniform() - 0.5F;
      feeds.emplace(name, t);
      return b.variable(name, kF32, s);
    };
    using I = std::int64_t;
    const Attrs same{{"pad_h", I{1}}, {"pad_w", I{1}}};
    const Attrs halves{{"window_h", I{2}}, {"window_w", I{2}}, {"stride_h", I{2}}, {"stride_w", I{2}}};
    const Value x = variable("x", {2, 3, 8, 6});
    const Value first = b.add_node(op::kConv2d, {x, variable("w1", {4, 3, 3, 3})}, same);
    const Value scale = variable("scale", {4}), shift = variable("shift", {4});
    const Value normed = b.add_node(op::kBatchNorm, {first, scale, shift});
    const Value pooled = b.add_node(op::kMaxPool2d, {b.relu(normed)}, halves);
    const Value second = b.add_node(op::kConv2d, {pooled, variable("w2", {4, 4, 3, 3})}, same);
    const Value biased = b.add_node(op::kBiasAdd, {second, variable("bias", {4})});
    const Value response = b.add_node(op::kLocalResponseNorm, {b.relu(biased)}, {{"size", I{3}}});
    const Value both = b.add_node(op::kConcat, {response, pooled}, {{"axis", I{1}}});
    const Value third = b.add_node(op::kConv2d, {both, variable("w4", {4, 8, 1, 1})});
    const Value sum = b.add(third, pooled);
    const Value mean = b.add_node(op::kMean, {sum}, {{"axes", std::vector<I>{2, 3}}});
    const Value flat = b.reshape(sum, {2, 48});
    const Value out = b.add(b.matmul(flat, variable("w3", {48, 4})), mean);
    b.output("loss", b.sum(b.mul(out, b.tanh(out))));
    b.output("image", sum);
    TR_CHECK(b.status().ok(), "{}", b.status().to_string());
    graph = low ? *lower_precision(plain, *low) : std::move(plain);
    add_gradient_outputs(graph);
    graph = *run_pass("cse", *eliminate_dead_code(graph, {}));
  }
};

TEST(ChannelsLast, KeepsTheResultsOfANetWithGradients) {
  const Net net(std::nullopt);
  const Result<Graph> turned = run_pass("channels_last", net.graph, {.turnable = kTurnable});
  ASSERT_TRUE(turned.ok()) << turned.status().to_string();
  ASSERT_TRUE(verify(*turned).ok());
  // 3 convolutions with two gradients each, pooling and its gradient.
  EXPECT_EQ(count_formed(*turned), 11) << turned->to_text();
  for (const char* op :
       {"conv2d", "conv2d_input_grad", "conv2d_filter_grad", "max_pool2d", "max_pool2d_grad"})
    EXPECT_EQ(count_formed(*turned, op), count_ops(*turned, op)) << op;
  expect_same_results(*turned, net.graph, net.feeds, 1e-5, "turned");
  const Graph fused = *run_pass("fuse", *eliminate_dead_code(*run_pass("hoist_reshapes", *turned), {}));
  expect_same_results(fused, net.graph, net.feeds, 1e-5, "turned and fused");
}

TEST(ChannelsLast, KeepsTheResultsInMixedPrecisionWithAbsorbedCasts) {
  const std::set<std::string, std::less<>> adaptable{
      "batch_norm", "batch_norm_grad", "bias_grad", "max_pool2d", "max_pool2d_grad", "mean", "transpose"};
  for (const DType low : {DType::kBF16, DType::kF16}) {
    const Net net(low);
    const Graph turned = *run_pass("channels_last", net.graph, {.turnable = kTurnable});
    expect_same_results(turned, net.graph, net.feeds, 0.02, "turned");
    const Graph hoisted = *run_pass("hoist_reshapes", turned);
    const Graph absorbed =
        *eliminate_dead_code(*run_pass("absorb_casts", hoisted, {.adaptable = adaptable}), {});
    expect_same_results(absorbed, turned, net.feeds, 0, "absorbed");
    const Graph fused = *run_pass("fuse", absorbed);
    ASSERT_TRUE(verify(fused).ok());
    expect_same_results(fused, turned, net.feeds, 0, "fused");
  }
}

// Filters in, their gradients out, the image in, its gradient out, the flat image, its gradient, "image".
TEST(ChannelsLast, TurnsImagesAroundAtTheBordersOnly) {
  const Net net(DType::kBF16);
  const Graph turned =
      *eliminate_dead_code(*run_pass("channels_last", net.graph, {.turnable = kTurnable}), {});
  EXPECT_LE(count_ops(turned, "transpose"), 9) << turned.to_text();
  for (std::int32_t i = 0; i < turned.size(); ++i) {
    const Node& node = turned.node(i);
    const bool by_rows = node.def == &op::kRelu || node.def == &op::kBatchNorm;
    EXPECT_TRUE(!by_rows || node.outputs[0].shape.rank() == 2) << turned.to_text();
  }
}

TEST(ChannelsLast, LeavesAGraphWithoutConvolutionsAsItIs) {
  Graph graph;
  Builder b(graph);
  const Value x = b.variable("x", kF32, {2, 3, 4, 4});
  const std::int64_t two = 2;
  const Attrs halves{{"window_h", two}, {"window_w", two}, {"stride_h", two}, {"stride_w", two}};
  b.output("y", b.relu(b.add_node(op::kMaxPool2d, {x}, halves)));
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  EXPECT_EQ(run_pass("channels_last", graph, {.turnable = kTurnable})->to_text(), graph.to_text());
}

// A filter that changes between two readers is turned around for each.
TEST(ChannelsLast, SeesVariablesAsTheyAreWhenTheyAreRead) {
  Graph graph;
  Builder b(graph);
  Feeds feeds;
  Philox rng(3);
  for (const auto& [name, shape] : {std::pair<std::string, Shape>{"x", {1, 2, 3, 3}}, {"w", {2, 2, 3, 3}}}) {
    Tensor t = *Tensor::allocate(cpu_device(), {kF32, shape});
    for (float& f : t.values<float>()) f = rng.next_uniform();
    feeds.emplace(name, t);
  }
  const Value x = b.variable("x", kF32, {1, 2, 3, 3}), w = b.variable("w", kF32, {2, 2, 3, 3});
  const Value before = b.add_node(op::kConv2d, {x, w});
  const Value changed = b.add_node(op::kAssignAdd, {w, w});
  b.output("before", before);
  b.output("after", b.add_node(op::kConv2d, {x, changed}));
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  expect_same_results(*run_pass("channels_last", graph, {.turnable = kTurnable}), graph, feeds, 0, "changed");
}

}  // namespace
}  // namespace trireme::graph
