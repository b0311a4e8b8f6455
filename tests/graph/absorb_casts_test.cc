// A transformer-like block in mixed precision: casts go into the ops beside them, the bits stay.
#include <gtest/gtest.h>

#include "tests/graph/run_pass.h"
#include "tests/graph/same_outputs.h"
#include "trireme/base/rng.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

constexpr DType kF32 = DType::kF32;

struct Block {
  Graph graph;
  Feeds feeds;
  explicit Block(DType low) {
    Graph plain;
    Builder b(plain);
    Philox rng(5);
    std::vector<Value> weights;
    const auto variable = [&](const std::string& name, const Shape& s) {
      Tensor t = *Tensor::allocate(cpu_device(), {kF32, s});
      for (float& f : t.values<float>()) f = rng.next_uniform() - 0.5F;
      feeds.emplace(name, t);
      weights.push_back(b.variable(name, kF32, s));
      return weights.back();
    };
    const Value x = variable("x", {6, 8}), scale = variable("scale", {8}), shift = variable("shift", {8});
    const Value h = b.add_node(op::kLayerNorm, {x, scale, shift}, {{"num_axes", std::int64_t{1}}});
    const Value up = b.add_node(op::kBiasAdd, {b.matmul(h, variable("w1", {8, 16})), variable("b1", {16})});
    const Value y = b.add(x, b.matmul(b.add_node(op::kGelu, {up}), variable("w2", {16, 8})));
    const Value loss = b.sum(b.mul(y, b.tanh(y)));
    b.output("loss", loss);
    TR_CHECK(b.status().ok(), "{}", b.status().to_string());
    graph = *lower_precision(plain, low);
    const Value lowered = *graph.find_output("loss");
    std::vector<Value> wrt;
    for (const auto& [name, v] : graph.variables()) wrt.push_back(v);
    const auto grads = *add_gradients(graph, lowered, wrt);
    std::size_t i = 0;
    for (const auto& [name, v] : graph.variables()) graph.set_output("grad:" + name, grads[i++]);
    graph = *run_pass("cse", *eliminate_dead_code(graph, {}));
  }
};

TEST(AbsorbCasts, KeepsTheBitsAndLeavesOnlyCastsOfWeightsAlone) {
  const std::set<std::string, std::less<>> ops{"layer_norm", "layer_norm_grad", "bias_grad"};
  for (const DType low : {DType::kBF16, DType::kF16}) {
    const Block block(low);
    const Graph before = *run_pass("fuse", block.graph);
    const Result<Graph> absorbed = run_pass("absorb_casts", block.graph, {.adaptable = ops});
    ASSERT_TRUE(absorbed.ok()) << absorbed.status().to_string();
    const Graph after = *run_pass("fuse", *eliminate_dead_code(*absorbed, {}));
    ASSERT_TRUE(verify(after).ok());
    EXPECT_GE(count_formed(after), 2) << after.to_text();
    EXPECT_LT(count_ops(after, "cast"), count_ops(before, "cast"));
    expect_same_results(*absorbed, block.graph, block.feeds, 0, "absorbed");
    expect_same_results(after, block.graph, block.feeds, 0, "absorbed and fused");
  }
}

TEST(AbsorbCasts, LeavesWhatSomebodyWantsAsItIs) {
  const Block block(DType::kBF16);
  Graph seen = block.graph;  // the normalised rows are wanted in f32
  for (std::int32_t i = 0; i < seen.size(); ++i)
    if (seen.node(i).def == &op::kLayerNorm) seen.set_output("rows", {i, 0});
  const Graph after = *run_pass("absorb_casts", seen, {.adaptable = {"layer_norm"}});
  EXPECT_EQ(after.type(*after.find_output("rows")).dtype, kF32);
  expect_same_results(after, seen, block.feeds, 0, "absorbed");
}

// relu's gradient of a 16-bit value has nothing that 16 bits do not hold, whatever reads it next.
TEST(AbsorbCasts, KeepsWhatReluChoosesIn16Bits) {
  Graph graph;
  Builder b(graph);
  Feeds feeds;
  Philox rng(9);
  for (const auto& [name, shape] :
       {std::pair<std::string, Shape>{"dy", {4, 8}}, {"y", {4, 8}}, {"scale", {8}}, {"shift", {8}}}) {
    Tensor t = *Tensor::allocate(cpu_device(), {kF32, shape});
    for (float& f : t.values<float>()) f = rng.next_uniform() - 0.5F;
    feeds.emplace(name, t);
  }
  const Value low = b.add_node(op::kCast, {b.variable("dy", kF32, {4, 8})}, {{"dtype", DType::kBF16}});
  const Value dy = b.add_node(op::kCast, {low}, {{"dtype", kF32}});
  const Value chosen = b.add_node(op::kReluGrad, {dy, b.variable("y", kF32, {4, 8})});
  const Value scale = b.variable("scale", kF32, {8}), shift = b.variable("shift", kF32, {8});
  b.output("rows", b.add_node(op::kLayerNorm, {chosen, scale, shift}, {{"num_axes", std::int64_t{1}}}));
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  const Graph after =
      *eliminate_dead_code(*run_pass("absorb_casts", graph, {.adaptable = {"layer_norm"}}), {});
  const Node& norm = after.node(after.find_output("rows")->node);
  ASSERT_EQ(op::formed_name(*norm.def, norm.forms), "layer_norm[f32,-,->-,-,-]");
  EXPECT_EQ(after.type(norm.inputs[0]).dtype, DType::kBF16) << after.to_text();
  expect_same_results(after, graph, feeds, 0, "chosen");
}

}  // namespace
}  // namespace trireme::graph
