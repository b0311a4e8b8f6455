#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/random_graph.h"
#include "tests/graph/run_pass.h"
#include "tests/graph/same_outputs.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/op/fused/program.h"

namespace trireme::graph {
namespace {

using ::testing::HasSubstr;
constexpr DType kF32 = DType::kF32;

Tensor random_f32(std::uint64_t seed, const Shape& shape) {
  Philox rng(seed);
  Tensor t = *Tensor::allocate(cpu_device(), {kF32, shape});
  for (float& f : t.values<float>()) f = 2 * rng.next_uniform() - 1;
  return t;
}

const Node& only(const Graph& g, std::string_view op) {
  EXPECT_EQ(count_ops(g, op), 1);
  for (std::int32_t i = 0; i < g.size(); ++i)
    if (g.node(i).def->name == op) return g.node(i);
  TR_CHECK(false, "no {}", op);
}

// y = relu((x + row) * scalar - x), with the sum an output too.
struct Chain {
  Graph graph;
  Feeds feeds;
  explicit Chain(const Shape& shape) {
    Builder b(graph);
    const Value x = b.input("x", kF32, shape), row = b.input("row", kF32, {shape[1]}),
                scalar = b.input("scalar", kF32, {});
    const Value sum = b.add(x, row);
    const Value y = b.relu(b.sub(b.mul(sum, scalar), x));
    b.output("sum", sum);
    b.output("y", y);
    TR_CHECK(b.status().ok(), "{}", b.status().to_string());
    feeds = {{"x", random_f32(1, shape)}, {"row", random_f32(2, {shape[1]})}, {"scalar", random_f32(3, {})}};
  }
};

TEST(Fuse, AChainBecomesOneNodeWithTheSameBits) {
  for (const Shape& shape : {Shape{37, 29}, Shape{1, 1}, Shape{0, 5}, Shape{300, 1}}) {
    const Chain c(shape);
    const Graph fused = *run_pass("fuse", c.graph);
    EXPECT_EQ(fused.size(), 4) << fused.to_text();
    EXPECT_EQ(only(fused, "fused").outputs.size(), 2U);
    expect_same_results(fused, c.graph, c.feeds, 0, shape.to_string());
  }
}

TEST(Fuse, AGroupReadsEachInputAndWritesEachOutputOnce) {
  const Chain c({64, 100});
  const Graph fused = *run_pass("fuse", c.graph);
  const Node& node = only(fused, "fused");
  std::vector<Tensor> in, out;
  std::vector<TensorType> types;
  for (const Value v : node.inputs) {
    in.push_back(c.feeds.at(fused.node(v.node).name));
    types.push_back(fused.type(v));
  }
  for (const TensorType& t : node.outputs) out.push_back(*Tensor::allocate(cpu_device(), t));
  op::detail::FusedTraffic traffic;
  op::detail::run_program(*op::detail::parse_program(node.attrs.get_text("program")), in, out, &traffic);
  EXPECT_EQ(traffic.loads, 3 * 6400) << "x, the row and the scalar, once for every element of the loop";
  EXPECT_EQ(traffic.stores, 2 * 6400) << "two outputs";

  const cost::OpCost cost = node.def->cost(types, node.outputs, node.attrs);
  EXPECT_EQ(cost.bytes, 4.0 * (6400 + 100 + 1 + 2 * 6400));
  EXPECT_EQ(cost.flops, 4.0 * 6400) << "add, mul, sub, relu";
  EXPECT_EQ(total_cost(c.graph).flops, total_cost(fused).flops);
  EXPECT_LT(total_cost(fused).bytes, total_cost(c.graph).bytes / 2.5);
}

TEST(Fuse, AVariableThatChangesInBetweenIsReadBefore) {
  Graph g;
  Builder b(g);
  const Value w = b.variable("w", kF32, {8}), x = b.input("x", kF32, {8});
  const Value before = b.tanh(w);
  const Value after = b.add_node(op::kAssignAdd, {w, x});
  b.output("y", b.relu(b.add(before, x)));
  b.output("w", after);
  const Graph fused = *run_pass("fuse", g);
  ASSERT_TRUE(verify(fused).ok()) << verify(fused).to_string();
  EXPECT_EQ(count_ops(fused, "tanh"), 1) << fused.to_text();
  expect_same_results(fused, g, {{"w", random_f32(1, {8})}, {"x", random_f32(2, {8})}}, 0, "variable");
}

TEST(Fuse, NoPathLeavesAGroupAndComesBack) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {4, 4});
  const Value a = b.tanh(x);
  const Value m = b.matmul(a, a);      // outside
  b.output("y", b.relu(b.add(a, m)));  // reads both: a may not join it
  const Graph fused = *run_pass("fuse", g);
  ASSERT_TRUE(verify(fused).ok());
  EXPECT_EQ(count_ops(fused, "tanh"), 1) << fused.to_text();
  EXPECT_EQ(only(fused, "fused").inputs.size(), 2U);
  expect_same_results(fused, g, {{"x", random_f32(1, {4, 4})}}, 0, "path");
}

TEST(Fuse, NodesWithControlEdgesStayAlone) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {4});
  const Value a = b.tanh(x), c = b.relu(x), d = b.relu(a);
  g.add_control(c.node, d.node);
  b.output("d", d);
  EXPECT_EQ(count_ops(*run_pass("fuse", g), "fused"), 0);
}

TEST(Fuse, OutputZeroTakesTheMemoryOfAnInputThatDies) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {16, 16}), y = b.input("y", kF32, {16, 16});
  const Value m = b.matmul(x, y);
  const Value out = b.matmul(b.relu(b.add(b.mul(x, y), m)), y);
  b.output("out", out);
  const Graph fused = *run_pass("fuse", g);
  const MemoryResult memory = *plan_memory(fused, {});
  for (std::int32_t i = 0; i < fused.size(); ++i) {
    if (fused.node(i).def->name != "fused") continue;
    EXPECT_EQ(fused.node(fused.node(i).inputs[0].node).def->name, "matmul");
    EXPECT_FALSE(memory.plan.places[static_cast<std::size_t>(i)][0].alias_of.is_null());
  }
  EXPECT_EQ(memory.plan.arena_bytes, 2 * 16 * 16 * 4);
}

TEST(Fuse, ABiasAlongChannelsJoinsItsGroup) {
  for (const Shape& shape : {Shape{2, 3, 5, 7}, Shape{4, 6}, Shape{3, 300, 4}}) {
    Graph g;
    Builder b(g);
    const Value x = b.input("x", kF32, shape), c = b.variable("c", kF32, {shape[1]});
    b.output("y", b.relu(b.bias_add(b.tanh(x), c)));
    ASSERT_TRUE(b.status().ok()) << b.status().to_string();
    const Graph fused = *run_pass("fuse", g);
    EXPECT_EQ(count_ops(fused, "fused"), 1) << fused.to_text();
    EXPECT_EQ(count_ops(fused, "bias_add"), 0) << fused.to_text();
    ASSERT_TRUE(verify(fused).ok()) << verify(fused).to_string();
    expect_same_results(fused, g, {{"x", random_f32(1, shape)}, {"c", random_f32(2, {shape[1]})}}, 0,
                        shape.to_string());
  }
}

TEST(Fuse, ABiasComputedByTheSameGroupStaysOutside) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {3, 3, 3}), v = b.input("v", kF32, {3});
  b.output("y", b.relu(b.bias_add(x, b.tanh(v))));
  const Graph fused = *run_pass("fuse", g);
  ASSERT_TRUE(verify(fused).ok()) << verify(fused).to_string();
  expect_same_results(fused, g, {{"x", random_f32(1, {3, 3, 3})}, {"v", random_f32(2, {3})}}, 0, "bias");
}

TEST(FuseAndJoin, ResultsOfOneShapeThatNobodyReadsComeTogether) {
  Graph graph;
  Builder b(graph);
  Feeds feeds;
  const Value share = b.input("share", kF32, {});
  feeds.emplace("share", random_f32(1, {}));
  for (int i = 0; i < 6; ++i) {
    const Shape shape{i % 2 == 0 ? 4 : 6};
    const std::string name = fmt::format("v{}", i);
    feeds.emplace(name, random_f32(static_cast<std::uint64_t>(i) + 2, shape));
    b.output("scaled " + name, b.mul(b.variable(name, kF32, shape), share));
  }
  ASSERT_TRUE(b.status().ok());
  const Graph joined = *run_pass("fuse", graph, {.join_results = true});
  ASSERT_TRUE(verify(joined).ok()) << verify(joined).to_string();
  EXPECT_EQ(count_ops(joined, "fused"), 2) << joined.to_text();
  EXPECT_EQ(count_ops(joined, "mul"), 0);
  expect_same_results(joined, graph, feeds, 0, "joined");
}

TEST(FuseAndJoin, KeepsTheBitsOfRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const RandomGraph r = random_graph(seed, 40, /*with_hosts=*/seed % 2 == 1, Flavour::kRich);
    const Graph after = *run_pass("fuse", r.graph, {.join_results = true});
    ASSERT_TRUE(verify(after).ok()) << verify(after).to_string() << "\n" << after.to_text();
    expect_same_results(after, r.graph, r.feeds, 0, fmt::format("seed {}", seed));
    if (HasFatalFailure()) return;
  }
}

TEST(FuseEpilogues, ProductBiasAndReluBecomeOneNodeInATrainingGraph) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {3, 2, 6, 6}), f = b.variable("f", kF32, {4, 2, 3, 3}),
              c = b.variable("c", kF32, {4}), w = b.variable("w", kF32, {64, 5}),
              d = b.variable("d", kF32, {5});
  const Value h = b.relu(b.bias_add(b.conv2d(x, f), c));
  const Value y = b.bias_add(b.matmul(b.reshape(h, {3, 64}), w), d);
  b.output("y", b.tanh(y));
  const auto grads = *add_gradients(g, b.sum(b.mul(y, y)), std::vector{f, c, w, d});
  for (std::size_t i = 0; i < grads.size(); ++i) b.output(fmt::format("d{}", i), grads[i]);
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  const Graph after = *run_pass("fuse_epilogues", g);
  ASSERT_TRUE(verify(after).ok()) << verify(after).to_string();
  EXPECT_TRUE(only(after, "conv2d_bias_act").attrs.get_bool("relu"));
  EXPECT_FALSE(only(after, "matmul_bias_act").attrs.get_bool("relu"));
  EXPECT_EQ(count_ops(after, "bias_add") + count_ops(after, "relu"), 0);
  const Feeds feeds{{"x", random_f32(1, {3, 2, 6, 6})},
                    {"f", random_f32(2, {4, 2, 3, 3})},
                    {"c", random_f32(3, {4})},
                    {"w", random_f32(4, {64, 5})},
                    {"d", random_f32(5, {5})}};
  expect_same_results(after, g, feeds, 0, "reference kernels give the bits of the parts");
}

TEST(FuseEpilogues, AValueThatSomebodyElseReadsStays) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {4, 4}), c = b.variable("c", kF32, {4});
  const Value product = b.matmul(x, x), sum = b.bias_add(product, c), y = b.relu(sum);
  b.output("sum", sum);
  b.output("y", y);
  Graph after = *run_pass("fuse_epilogues", g);
  EXPECT_EQ(count_ops(after, "relu"), 1) << "the sum is an output";
  EXPECT_EQ(count_ops(after, "matmul_bias_act"), 1);
  b.output("product", product);
  EXPECT_EQ(run_pass("fuse_epilogues", g)->to_text(), g.to_text());
}

TEST(FusedProgram, ItsTextIsReadBackAndMistakesAreNamed) {
  using op::detail::parse_program;
  const std::string text =
      R"({"inputs":2,"steps":[["add",[0,1]],["scale",[2],{"factor":0.5}]],"outputs":[3]})";
  EXPECT_EQ(*op::detail::program_text(*parse_program(text)), text);
  const auto message = [](const char* t) { return parse_program(t).status().message(); };
  EXPECT_THAT(message("{"), HasSubstr("program"));
  EXPECT_THAT(message("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(message(R"({"inputs":1,"steps":[["matmul",[0,0]]],"outputs":[1]})"), HasSubstr("matmul"));
  EXPECT_THAT(message(R"({"inputs":1,"steps":[["fused",[0]]],"outputs":[1]})"), HasSubstr("fused"));
  EXPECT_THAT(message(R"({"inputs":1,"steps":[["relu",[1]]],"outputs":[1]})"), HasSubstr("register below 1"));
  EXPECT_THAT(message(R"({"inputs":1,"steps":[["add",[0]]],"outputs":[1]})"), HasSubstr("got 1 operands"));
  EXPECT_THAT(message(R"({"inputs":1,"steps":[["relu",[0]]],"outputs":[0]})"), HasSubstr("results of steps"));
  EXPECT_THAT(message(R"({"inputs":1,"steps":[["relu",[0]]],"outputs":[1,1]})"), HasSubstr("each once"));
  EXPECT_THAT(message(R"({"inputs":0,"steps":[["relu",[0]]],"outputs":[0]})"), HasSubstr("0 inputs"));
  EXPECT_THAT(message(R"({"inputs":1,"steps":[["scale",[0],{"x":1}]],"outputs":[1]})"), HasSubstr("'x'"));
}

TEST(FusedProgram, StepsOfAnotherShapeAreRefused) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {2, 3}), row = b.input("row", kF32, {3});
  b.add_node(
      op::kFused, {x, row},
      {{"program", std::string(R"({"inputs":2,"steps":[["relu",[1]],["add",[0,2]]],"outputs":[3]})")}});
  EXPECT_THAT(b.status().message(), HasSubstr("step %3: got shape [2, 3]"));
}

}  // namespace
}  // namespace trireme::graph
