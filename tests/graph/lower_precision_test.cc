#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/same_outputs.h"
#include "trireme/base/rng.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"

namespace trireme::graph {
namespace {

using ::testing::HasSubstr;
constexpr DType kF32 = DType::kF32;

struct Mlp {
  Graph graph;
  Feeds feeds;
  std::vector<Value> weights;
  Value loss;
  Mlp() {
    Builder b(graph);
    Philox rng(11);
    const auto feed = [&](const std::string& name, const Shape& s) {
      Tensor t = *Tensor::allocate(cpu_device(), {kF32, s});
      for (float& f : t.values<float>()) f = rng.next_uniform() - 0.5F;
      feeds.emplace(name, t);
    };
    feed("x", {6, 8});
    feed("w1", {8, 8});
    feed("w2", {8, 3});
    const Value x = b.input("x", kF32, {6, 8});
    weights = {b.variable("w1", kF32, {8, 8}), b.variable("w2", kF32, {8, 3})};
    const Value y = b.tanh(b.matmul(b.relu(b.matmul(x, weights[0])), weights[1]));
    b.output("y", y);
    loss = b.sum(b.mul(y, y));
    b.output("loss", loss);
    TR_CHECK(b.status().ok(), "{}", b.status().to_string());
  }
};

TEST(LowerPrecision, ProductsAreLowVariablesAndOutputsStay) {
  const Mlp mlp;
  for (const DType low : {DType::kBF16, DType::kF16}) {
    const Result<Graph> after = lower_precision(mlp.graph, low);
    ASSERT_TRUE(after.ok()) << after.status().to_string();
    ASSERT_TRUE(verify(*after).ok());
    int products = 0;
    for (std::int32_t i = 0; i < after->size(); ++i) {
      const Node& n = after->node(i);
      if (n.def->name == "matmul" || n.def->name == "relu") {
        EXPECT_EQ(n.outputs[0].dtype, low) << n.name;
        ++products;
      }
      if (n.def->name == "tanh" || n.def->name == "variable") {
        EXPECT_EQ(n.outputs[0].dtype, kF32) << n.name;
      }
    }
    EXPECT_EQ(products, 3);
    EXPECT_EQ(count_ops(*after, "cast"), 4) << "x, w1, w2 down, the last product up; relu needs none";
    expect_same_results(*after, mlp.graph, mlp.feeds, 0.02, "outputs");
  }
}

TEST(LowerPrecision, GradientsComeBackAsF32AndAreClose) {
  Mlp full, mixed;
  mixed.graph = *lower_precision(mixed.graph, DType::kBF16);
  for (Mlp* m : {&full, &mixed}) {
    std::vector<Value> wrt;
    for (const auto& [name, v] : m->graph.variables()) wrt.push_back(v);
    const auto grads = add_gradients(m->graph, *m->graph.find_output("loss"), wrt);
    ASSERT_TRUE(grads.ok()) << grads.status().to_string();
    for (std::size_t i = 0; i < wrt.size(); ++i) {
      EXPECT_EQ(m->graph.type((*grads)[i]).dtype, kF32);
      m->graph.set_output(fmt::format("d{}", i), (*grads)[i]);
    }
  }
  expect_same_results(mixed.graph, full.graph, full.feeds, 0.03, "gradients");
}

TEST(LowerPrecision, AValueIsCastOnce) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {4, 4});
  b.output("a", b.matmul(x, x));
  b.output("b", b.matmul(x, x, true));
  EXPECT_EQ(count_ops(*lower_precision(g, DType::kF16), "cast"), 3) << "x once, two outputs";
}

TEST(LowerPrecision, OtherDtypesAreRefused) {
  EXPECT_THAT(lower_precision({}, DType::kF64).status().message(),
              HasSubstr("got f64, expected bf16 or f16"));
}

}  // namespace
}  // namespace trireme::graph
