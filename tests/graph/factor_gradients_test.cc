// Which gradients are one product, and that their factors give them back to the bit.
#include "trireme/graph/pass/factor_gradients.h"

#include <gtest/gtest.h>

#include "tests/graph/run_pass.h"
#include "tests/graph/same_outputs.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"

namespace trireme::graph {
namespace {

constexpr DType kF32 = DType::kF32;

Tensor numbers(const Shape& shape, float first) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < shape.num_elems(); ++i)
    values.push_back(static_cast<float>((7 * i + 3) % 11) / 3 - first);
  return Tensor::from<float>(values, shape);
}

// Adds the outputs "grad:<variable>" of every variable.
void differentiate(Graph& g, Value loss) {
  std::vector<Value> wrt;
  for (const auto& [name, v] : g.variables()) wrt.push_back(v);
  const auto grads = add_gradients(g, loss, wrt);
  ASSERT_TRUE(grads.ok()) << grads.status().to_string();
  std::size_t i = 0;
  for (const auto& [name, v] : g.variables()) g.set_output("grad:" + name, (*grads)[i++]);
  g.set_output("loss", loss);
}

std::vector<std::string> names_of(const Graph& g) {
  std::vector<std::string> names;
  for (const auto& [name, v] : g.variables()) names.push_back(name);
  return names;
}

std::vector<std::string> taken_of(const Graph& g) {
  std::vector<std::string> taken;
  const FactoredGraph after = *factor_gradients(g, names_of(g));
  for (const FactoredGradient& f : after.factored) taken.push_back(f.parameter);
  return taken;
}

// Three layers: the second one's weight lies transposed, and has a bias.
Graph network() {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {5, 3});
  const Value one = b.variable("one", kF32, {3, 4}), two = b.variable("two", kF32, {6, 4}),
              bias = b.variable("bias", kF32, {6}), three = b.variable("three", kF32, {6, 2});
  const Value h = b.tanh(b.matmul(x, one));
  const Value k = b.relu(b.bias_add(b.matmul(h, two, false, true), bias));
  differentiate(g, b.sum(b.tanh(b.matmul(k, three))));
  EXPECT_TRUE(b.status().ok()) << b.status().to_string();
  return g;
}

Feeds feeds_of(const Graph& g) {
  Feeds feeds;
  float first = 1;
  for (std::int32_t i = 0; i < g.size(); ++i)
    if (g.node(i).def->has(op::kFeed))
      feeds.emplace(g.node(i).attrs.get_text("name"), numbers(g.node(i).outputs[0].shape, first += 0.25F));
  return feeds;
}

TEST(FactorGradients, GiveBackEveryGradientOfAFullyConnectedLayerToTheBit) {
  const Graph g = network();
  const FactoredGraph after = *factor_gradients(g, names_of(g));
  EXPECT_EQ(taken_of(g), (std::vector<std::string>{"one", "three", "two"}));
  const Feeds feeds = feeds_of(g);
  for (const Graph& graph : {after.graph, *run_pass("fuse", *run_pass("cse", after.graph))})
    for (const FactoredGradient& f : after.factored) {
      EXPECT_FALSE(graph.find_output("grad:" + f.parameter)) << f.parameter;
      const Feeds factors = {{"u", interpret_output(graph, feeds, "factor:u:" + f.parameter)},
                             {"v", interpret_output(graph, feeds, "factor:v:" + f.parameter)}};
      EXPECT_EQ(factors.at("u").type(), f.u);
      EXPECT_EQ(factors.at("v").type(), f.v);
      EXPECT_EQ(bits(interpret_output(f.product, factors, "grad")),
                bits(interpret_output(g, feeds, "grad:" + f.parameter)))
          << f.parameter;
    }
  for (const char* other : {"loss", "grad:bias"})
    EXPECT_EQ(bits(interpret_output(after.graph, feeds, other)), bits(interpret_output(g, feeds, other)));
}

TEST(FactorGradients, LeaveTheProductsOut) {
  const Graph g = network(), after = factor_gradients(g, names_of(g))->graph;
  EXPECT_EQ(count_ops(after, "matmul"), count_ops(g, "matmul") - 3);
}

TEST(FactorGradients, AreTakenOnlyOfTheParametersNamed) {
  const Graph g = network();
  const std::vector<std::string> one = {"one", "nobody"};
  const FactoredGraph after = *factor_gradients(g, one);
  ASSERT_EQ(after.factored.size(), 1U);
  EXPECT_TRUE(after.graph.find_output("grad:two"));
  EXPECT_EQ(factor_gradients(g, {})->graph.to_text(), g.to_text());
}

TEST(FactorGradients, OfTwoLayersWithOneInputStayTwoOutputs) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {5, 3});
  const Value q = b.variable("q", kF32, {3, 4}), k = b.variable("k", kF32, {3, 4});
  differentiate(g, b.sum(b.tanh(b.add(b.matmul(x, q), b.matmul(x, k)))));
  const Graph after = *run_pass("cse", factor_gradients(g, names_of(g))->graph);
  EXPECT_NE(*after.find_output("factor:u:q"), *after.find_output("factor:u:k"));
  EXPECT_NE(*after.find_output("factor:v:q"), *after.find_output("factor:v:k"));
}

TEST(FactorGradients, AreNotTakenOfATiedWeight) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {5, 4}), w = b.variable("w", kF32, {4, 4});
  differentiate(g, b.sum(b.tanh(b.matmul(b.tanh(b.matmul(x, w)), w, false, true))));
  EXPECT_TRUE(taken_of(g).empty());
}

TEST(FactorGradients, AreNotTakenOfBatchesOfProducts) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {2, 5, 4}), w = b.variable("w", kF32, {4, 3});
  differentiate(g, b.sum(b.tanh(b.matmul(x, w))));
  EXPECT_TRUE(taken_of(g).empty());
}

TEST(FactorGradients, AreNotTakenWhereSomethingElseReadsOrFollowsTheProduct) {
  Graph followed;
  Builder b(followed);
  const Value x = b.input("x", kF32, {5, 4}), w = b.variable("w", kF32, {4, 3});
  differentiate(followed, b.sum(b.tanh(b.matmul(x, w))));
  const Value grad = *followed.find_output("grad:w");
  Graph read = followed, named = followed;
  followed.set_output("grad:w", Builder(followed).relu(grad));
  EXPECT_TRUE(taken_of(followed).empty());
  read.set_output("length", Builder(read).sum(grad));
  EXPECT_TRUE(taken_of(read).empty());
  named.set_output("the same", grad);
  EXPECT_TRUE(taken_of(named).empty());
}

}  // namespace
}  // namespace trireme::graph
