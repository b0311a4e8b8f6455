// Attention between a projection and its heads, as models build it: the moves go, the numbers stay.
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

constexpr DType kF32 = DType::kF32;
using Ints = std::vector<std::int64_t>;

struct Options {
  DType low = kF32;
  bool gradients = true;
  bool parts_in_order = true;  // or k and q the other way round
  bool heads_are_read = false;
  bool key_is_scaled = false;
};

// Two samples of 5 tokens; 2 heads of 4 features.
struct Model {
  Graph graph;
  Feeds feeds;
  Philox rng{3};
  std::vector<Value> weights = {};

  Value variable(Builder& b, const std::string& name, const Shape& s) {
    Tensor t = *Tensor::allocate(cpu_device(), {kF32, s});
    for (float& f : t.values<float>()) f = rng.next_uniform() - 0.5F;
    feeds.emplace(name, t);
    return b.variable(name, kF32, s);
  }

  explicit Model(const Options& o) {
    Graph plain;
    Builder b(plain);
    const Value x = variable(b, "x", {10, 8});
    const Value all =
        b.add_node(op::kBiasAdd, {b.matmul(x, variable(b, "in", {8, 24})), variable(b, "bias", {24})});
    const Value parts = b.add_node(op::kSplit, {b.reshape(all, {2, 5, 24})},
                                   {{"axis", std::int64_t{2}}, {"sizes", Ints{8, 8, 8}}});
    const op::Attrs turn{{"order", Ints{0, 2, 1, 3}}};
    std::vector<Value> qkv;
    for (const std::int32_t i : {o.parts_in_order ? 0 : 1, o.parts_in_order ? 1 : 0, 2})
      qkv.push_back(b.add_node(op::kTranspose, {b.reshape({parts.node, i}, {2, 5, 2, 4})}, turn));
    if (o.key_is_scaled) qkv[1] = b.add_node(op::kScale, {qkv[1]}, {{"factor", 2.0}});
    const Value heads = b.add_node(op::kAttention, qkv, {{"causal", true}, {"scale", 0.7}});
    if (o.heads_are_read) b.output("heads", heads);
    const Value y = b.reshape(b.add_node(op::kTranspose, {heads}, turn), {10, 8});
    const Value out = b.add(x, b.matmul(y, variable(b, "out", {8, 8})));
    b.output("loss", b.sum(b.mul(out, b.tanh(out))));
    TR_CHECK(b.status().ok(), "{}", b.status().to_string());
    graph = o.low == kF32 ? plain : *lower_precision(plain, o.low);
    if (!o.gradients) return;
    add_gradient_outputs(graph);
    graph = *run_pass("cse", *eliminate_dead_code(graph, {}));
  }

  Graph packed() const {
    const Result<Graph> made = run_pass("pack_attention", graph);
    TR_CHECK(made.ok(), "{}", made.status().to_string());
    return *eliminate_dead_code(*made, {});
  }
};

TEST(PackAttention, LeavesNoMovesAndTheSameNumbersInATrainingStep) {
  for (const DType low : {kF32, DType::kBF16, DType::kF16}) {
    const Model model({.low = low});
    const Graph after = model.packed();
    ASSERT_TRUE(verify(after).ok()) << verify(after).to_string();
    for (const char* const gone : {"attention", "attention_grad", "transpose", "split", "concat"})
      EXPECT_EQ(count_ops(after, gone), 0) << gone << "\n" << after.to_text();
    EXPECT_EQ(count_ops(after, "attention_qkv"), 1);
    EXPECT_EQ(count_ops(after, "attention_qkv_grad"), 1);
    const double tolerance = low == kF32 ? 1e-5 : low == DType::kBF16 ? 2e-2 : 3e-3;
    expect_same_results(after, model.graph, model.feeds, tolerance, std::string(dtype_name(low)));
  }
}

TEST(PackAttention, TakesTheForwardPassAloneWhereThereIsNoGradient) {
  const Model model({.low = DType::kBF16, .gradients = false});
  const Graph after = model.packed();
  EXPECT_EQ(count_ops(after, "attention_qkv"), 1);
  EXPECT_EQ(count_ops(after, "transpose"), 0);
  expect_same_results(after, model.graph, model.feeds, 1e-6, "forward");
}

TEST(PackAttention, LeavesAttentionOfOtherFormsAlone) {
  const Options others[] = {{.parts_in_order = false}, {.heads_are_read = true}, {.key_is_scaled = true}};
  for (const Options& o : others) {
    const Model model(o);
    EXPECT_EQ(model.packed().to_text(), model.graph.to_text());
  }
}

// The gradient goes elsewhere too: neither pass is packed.
TEST(PackAttention, TakesBothPassesOrNone) {
  Model model({});
  for (std::int32_t i = 0; i < model.graph.size(); ++i)
    if (model.graph.node(i).def == &op::kAttentionGrad) model.graph.set_output("of k", {i, 1});
  EXPECT_EQ(model.packed().to_text(), model.graph.to_text());
}

}  // namespace
}  // namespace trireme::graph
