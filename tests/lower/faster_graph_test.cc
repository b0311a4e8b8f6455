#include "trireme/lower/faster_graph.h"

#include <gtest/gtest.h>

#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/kernel/adaptable.h"
#include "trireme/op/ops.h"

namespace trireme::lower {
namespace {

using graph::Graph;
using graph::Value;

std::ptrdiff_t count(const Graph& g, std::string_view op) {
  std::ptrdiff_t found = 0;
  for (std::int32_t i = 0; i < g.size(); ++i) found += g.node(i).def->name == op;
  return found;
}

// Gradients of relu(batch_norm(x)), x an image or the result of a convolution.
Graph normed(bool convolved, std::int64_t channels = 32) {
  Graph g;
  graph::Builder b(g);
  const Value x = b.input("x", DType::kF32, {2, channels, 6, 6}),
              w = b.variable("w", DType::kF32, {4, channels, 3, 3});
  const std::int64_t normed = convolved ? 4 : channels;
  const Value scale = b.variable("scale", DType::kF32, {normed}),
              bias = b.variable("bias", DType::kF32, {normed});
  const Value image = convolved ? b.add_node(op::kConv2d, {x, w}) : x;
  const Value loss = b.sum(b.tanh(b.relu(b.add_node(op::kBatchNorm, {image, scale, bias}))));
  b.output("loss", loss);
  const auto grads = graph::add_gradients(g, loss, std::vector{scale, bias});
  TR_CHECK(b.status().ok() && grads.ok(), "{}", b.status().to_string());
  b.output("dscale", (*grads)[0]);
  b.output("dbias", (*grads)[1]);
  return g;
}

TEST(FasterGraph, NormsOfImagesWithTheChannelsLastTakeInRelu) {
  if (kernel::channels_last_cpu_ops(DType::kF32).empty()) GTEST_SKIP() << "convolutions are of planes here";
  const Graph made = *faster_graph({}, normed(true));
  EXPECT_EQ(count(made, "batch_norm_relu"), 1) << made.to_text();
  EXPECT_EQ(count(made, "batch_norm_relu_grad"), 1) << made.to_text();
  EXPECT_EQ(count(made, "batch_norm") + count(made, "relu"), 0) << made.to_text();
}

TEST(FasterGraph, ImagesOfFewChannelsStayAsTheyAre) {
  const Graph made = *faster_graph({}, normed(true, 16));
  EXPECT_EQ(count(made, "conv2d"), 1) << made.to_text();
  for (std::int32_t i = 0; i < made.size(); ++i) EXPECT_TRUE(made.node(i).forms.is_plain()) << made.to_text();
}

// For which the CPU has no kernel but the reference.
TEST(FasterGraph, NormsOfPlanesStayWhatTheyAre) {
  const Graph made = *faster_graph({}, normed(false));
  EXPECT_EQ(count(made, "batch_norm"), 1) << made.to_text();
  EXPECT_EQ(count(made, "batch_norm_relu") + count(made, "batch_norm_relu_grad"), 0) << made.to_text();
}

}  // namespace
}  // namespace trireme::lower
