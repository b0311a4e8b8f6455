// Convolutions with a bias and relu in 16 bits: one op where nobody reads more than 16 bits of the result.
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

using I = std::int64_t;

// Three convolutions with bias and relu: of a thin image, one that the next reads in 16 bits, one that a sum
// reads in f32.
struct Net {
  Graph graph;
  Feeds feeds;
  Net() {
    Graph plain;
    Builder b(plain);
    Philox rng(14);
    const auto variable = [&](const std::string& name, const Shape& s) {
      return random_variable(b, rng, feeds, name, s);
    };
    const Attrs same{{"pad_h", I{1}}, {"pad_w", I{1}}};
    const auto layer = [&](Value x, I in, I out, const std::string& name) {
      const Value y = b.add_node(op::kConv2d, {x, variable("w" + name, {out, in, 3, 3})}, same);
      return b.relu(b.add_node(op::kBiasAdd, {y, variable("b" + name, {out})}));
    };
    Value y = layer(variable("x", {2, 3, 5, 4}), 3, 8, "1");
    y = layer(y, 8, 9, "2");
    y = layer(y, 9, 4, "3");
    b.output("loss", b.sum(b.mul(y, y)));
    TR_CHECK(b.status().ok(), "{}", b.status().to_string());
    graph = *lower_precision(plain, DType::kBF16);
    add_gradient_outputs(graph);
    graph = *run_pass("cse", *eliminate_dead_code(graph, {}));
  }
};

TEST(BiasConvolutions, JoinsWhatIsReadInSixteenBits) {
  const Net net;
  const Graph joined =
      *eliminate_dead_code(*run_pass("bias_convolutions", *run_pass("narrow_copies", net.graph)), {});
  ASSERT_TRUE(verify(joined).ok());
  EXPECT_EQ(count_ops(joined, "conv2d_bias_act"), 1) << joined.to_text();
  EXPECT_EQ(count_ops(joined, "conv2d"), 2);
  expect_same_results(joined, net.graph, net.feeds, 0.1, "joined");
}

TEST(BiasConvolutions, AreTurnedAroundWithTheOthers) {
  const Net net;
  const std::set<std::string, std::less<>> turnable{"conv2d", "conv2d_input_grad", "conv2d_filter_grad",
                                                    "conv2d_bias_act"};
  const Graph joined =
      *eliminate_dead_code(*run_pass("bias_convolutions", *run_pass("narrow_copies", net.graph)), {});
  const Graph turned = *run_pass("absorb_casts", *run_pass("channels_last", joined, {.turnable = turnable}));
  ASSERT_TRUE(verify(turned).ok());
  for (const char* op : {"conv2d_bias_act", "conv2d"})
    EXPECT_EQ(count_formed(turned, op), count_ops(turned, op)) << turned.to_text();
  EXPECT_GE(count_formed(turned, "conv2d_bias_act"), 1) << turned.to_text();
  expect_same_results(turned, net.graph, net.feeds, 0.1, "turned");
}

TEST(BiasConvolutions, LeaveFullPrecisionAlone) {
  Graph plain;
  Builder b(plain);
  const Value x = b.variable("x", DType::kF32, {1, 8, 4, 4}), w = b.variable("w", DType::kF32, {2, 8, 1, 1});
  const Value bias = b.variable("b", DType::kF32, {2});
  b.output("y", b.relu(b.add_node(op::kBiasAdd, {b.add_node(op::kConv2d, {x, w}), bias})));
  ASSERT_TRUE(b.status().ok());
  EXPECT_EQ(count_ops(*run_pass("bias_convolutions", plain), "conv2d_bias_act"), 0);
}

}  // namespace
}  // namespace trireme::graph
