#include "trireme/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

using ::testing::HasSubstr;
constexpr DType kF32 = DType::kF32;

TEST(Graph, NamesAreUniquePathsBelowTheScope) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {2});
  g.push_scope("layer1");
  const Value w = b.variable("w", kF32, {2});
  const Value y = b.mul(x, w), z = b.mul(y, w);
  g.pop_scope();
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  EXPECT_EQ(g.node(y.node).name, "layer1/mul");
  EXPECT_EQ(g.node(z.node).name, "layer1/mul_1");
  EXPECT_EQ(g.node(w.node).name, "layer1/w");
  EXPECT_EQ(g.find_variable("layer1/w"), w);
  EXPECT_EQ(g.find_input("x"), x);
  EXPECT_FALSE(g.find_variable("x").has_value());
  ASSERT_EQ(g.variables().size(), 1U);
  EXPECT_EQ(g.variables()[0].first, "layer1/w");
  EXPECT_TRUE(verify(g).ok());
}

TEST(Graph, ABadNodeIsRefusedWithItsOpAndScope) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {2, 3});
  g.push_scope("head");
  const Value y = b.matmul(x, x);
  EXPECT_TRUE(y.is_null());
  EXPECT_THAT(b.status().message(), HasSubstr("matmul in scope 'head/'"));
  const Status first = b.status();
  b.relu(x);
  EXPECT_EQ(b.status().message(), first.message()) << "the first failure sticks";
}

TEST(Graph, ASecondFeedOfANameIsRefused) {
  Graph g;
  Builder b(g);
  b.variable("w", kF32, {1});
  b.variable("w", kF32, {1});
  EXPECT_EQ(b.status().code(), Code::kExists);
}

TEST(Graph, ValuesOfAnotherGraphAreRefused) {
  Graph g;
  Builder b(g);
  b.relu({7, 0});
  EXPECT_THAT(b.status().message(), HasSubstr("no value of this graph"));
}

TEST(Graph, SettingAnOutputAgainReplacesIt) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {2}), y = b.relu(x);
  b.output("y", x);
  b.output("y", y);
  EXPECT_EQ(g.outputs().size(), 1U);
  EXPECT_EQ(g.find_output("y"), y);
  EXPECT_FALSE(g.find_output("z").has_value());
}

TEST(Graph, TextShowsNodesAttributesControlAndOutputs) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {2, 3}), w = b.variable("w", kF32, {2, 3}),
              y = b.matmul(x, w, false, true);
  g.add_control(w.node, y.node);
  b.output("y", y);
  EXPECT_THAT(g.to_text(), HasSubstr("%2 = matmul(%0, %1) {transpose_a=false, transpose_b=true} : f32[2, 2] "
                                     "after %1  # matmul @ graph/graph_test.cc"));
  EXPECT_THAT(g.to_text(), HasSubstr("output \"y\" = %2"));
  EXPECT_THAT(g.to_dot(), HasSubstr("n0 -> n2"));
  EXPECT_THAT(g.to_dot(), HasSubstr("n1 -> n2 [style=dashed]"));
}

TEST(Verify, ReadingAVariablesOldValueAfterItsChangeIsRefused) {
  Graph g;
  Builder b(g);
  const Value w = b.variable("w", kF32, {2}), view = b.reshape(w, {1, 2});
  const Value changed = b.add_node(op::kAssignAdd, {w, w});
  b.relu(changed);
  EXPECT_TRUE(verify(g).ok());
  const Value stale = b.relu(view);
  ASSERT_TRUE(b.status().ok());
  const Status s = verify(g);
  EXPECT_THAT(s.message(), HasSubstr("'w'"));
  EXPECT_THAT(s.message(), HasSubstr(g.node(stale.node).name));
}

TEST(Verify, OnlyVariablesMayBeChanged) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {2});
  b.add_node(op::kAssignAdd, {x, x});
  ASSERT_TRUE(b.status().ok());
  EXPECT_THAT(verify(g).message(), HasSubstr("no variable"));
}

TEST(Verify, ErrorsNameTheNodeAndWhereItWasBuilt) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {2});
  g.push_scope("head");
  const int line = __LINE__ + 1;
  b.add_node(op::kAssignAdd, {x, x});
  ASSERT_TRUE(b.status().ok());
  EXPECT_THAT(
      verify(g).message(),
      HasSubstr(fmt::format("node %1 'head/assign_add' (assign_add) built at graph/graph_test.cc:{}", line)));
}

TEST(Graph, TextAndDotEscapeWhatTheyQuote) {
  Graph g;
  Builder b(g);
  const Value x = b.input("a\"b\\c\n", kF32, {2});
  b.output("out\"put", x);
  EXPECT_THAT(g.to_text(), HasSubstr(R"(name="a\"b\\c\n")"));
  EXPECT_THAT(g.to_text(), HasSubstr(R"(output "out\"put" = %0)"));
  EXPECT_THAT(g.to_dot(), HasSubstr(R"(label="a\"b\\c\n: input -> f32[2]")"));
  EXPECT_THAT(g.to_dot(), HasSubstr(R"(n0 -> out0 [label="f32[2]"])"));
}

TEST(DeadCode, KeepsWhatOutputsNeedWithNamesAndControlEdges) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {2}), w = b.variable("w", kF32, {2});
  const Value first = b.tanh(x), unused = b.sigmoid(x), y = b.mul(x, w), z = b.relu(w);
  g.add_control(first.node, y.node);
  b.output("y", y);
  b.output("z", z);
  Result<Graph> kept = eliminate_dead_code(g, std::vector<std::string>{"y"});
  ASSERT_TRUE(kept.ok());
  EXPECT_TRUE(verify(*kept).ok());
  EXPECT_EQ(kept->size(), 4);
  EXPECT_EQ(kept->outputs().size(), 1U);
  const Value moved = *kept->find_output("y");
  EXPECT_EQ(kept->node(moved.node).name, g.node(y.node).name);
  ASSERT_EQ(kept->node(moved.node).control.size(), 1U);
  EXPECT_EQ(kept->node(kept->node(moved.node).control[0]).name, g.node(first.node).name);
  EXPECT_THAT(kept->to_text(), ::testing::Not(HasSubstr(g.node(unused.node).name)));
  EXPECT_EQ(eliminate_dead_code(g, {})->size(), 5) << "no names: all outputs";
}

TEST(DeadCode, AnUnknownOutputIsRefusedWithTheNamesThatExist) {
  Graph g;
  Builder b(g);
  b.output("loss", b.input("x", kF32, {}));
  const Status s = eliminate_dead_code(g, std::vector<std::string>{"los"}).status();
  EXPECT_EQ(s.code(), Code::kNotFound);
  EXPECT_THAT(s.message(), HasSubstr("loss"));
}

TEST(Cost, IsTheSumOverNodes) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {4, 8}), w = b.variable("w", kF32, {8, 2});
  const Value y = b.matmul(x, w);
  EXPECT_EQ(node_cost(g, y.node).flops, 2.0 * 4 * 8 * 2);
  EXPECT_EQ(total_cost(g), node_cost(g, x.node) + node_cost(g, w.node) + node_cost(g, y.node));
}

}  // namespace
}  // namespace trireme::graph
