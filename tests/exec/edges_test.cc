#include "trireme/exec/edges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/exec/fixtures.h"

namespace trireme::exec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Net {
  Graph graph;
  Value x, w, scaled, bent;
};

// y = relu(x * w) + tanh(x * w)
Net net() {
  Net n;
  Builder b(n.graph);
  n.x = b.input("x", kF32, {2});
  n.w = b.variable("w", kF32, {2});
  n.graph.push_scope("layer");
  n.scaled = b.mul(n.x, n.w);
  n.bent = b.relu(n.scaled);
  n.graph.pop_scope();
  b.output("y", b.add(n.bent, b.tanh(n.scaled)));
  b.output("x", n.bent);  // on purpose: an output called like an input
  return n;
}

TEST(Edges, AreFoundByInputVariableNodeAndOutput) {
  const Net n = net();
  EXPECT_EQ(*find_edge(n.graph, "x"), n.x);
  EXPECT_EQ(*find_edge(n.graph, "w"), n.w);
  EXPECT_EQ(*find_edge(n.graph, "layer/relu"), n.bent);
  EXPECT_EQ(*find_edge(n.graph, "layer/relu:0"), n.bent);
  EXPECT_EQ(*find_edge(n.graph, "y"), *n.graph.find_output("y"));
  EXPECT_EQ(*find_fetch(n.graph, "x"), n.bent) << "who fetches means the output";
}

TEST(Edges, UnknownNamesAreRefusedWithThoseThatAreAlike) {
  const Net n = net();
  EXPECT_THAT(find_edge(n.graph, "conv/relu").status().message(),
              AllOf(HasSubstr("'conv/relu'"), HasSubstr("y, x"), HasSubstr("layer/relu")));
  EXPECT_THAT(find_edge(n.graph, "layer/relu:1").status().message(),
              HasSubstr("no output 1, expected 0 to 0"));
  EXPECT_EQ(find_edge(n.graph, "layer/relu:").status().code(), Code::kNotFound);
  EXPECT_EQ(find_edge(n.graph, "").status().code(), Code::kNotFound);
}

TEST(CutAt, ReadersOfTheEdgeReadTheNewInput) {
  const Net n = net();
  const Graph cut = *cut_at(n.graph, std::vector{Cut{n.scaled, "fed"}});
  EXPECT_TRUE(graph::verify(cut).ok());
  const Feeds feeds{{"x", tensor({1, 1})}, {"w", tensor({1, 1})}, {"fed", tensor({-1, 2})}};
  const Tensor y = graph::interpret_output(cut, feeds, "y");
  EXPECT_FLOAT_EQ(y.values<float>()[0], std::tanh(-1.0F));
  EXPECT_FLOAT_EQ(y.values<float>()[1], 2 + std::tanh(2.0F));
  EXPECT_EQ(cut.type(*cut.find_input("fed")), n.graph.type(n.scaled));
}

TEST(CutAt, RefusesInputsAndVariablesThatTheGraphChanges) {
  Net n = net();
  EXPECT_THAT(cut_at(n.graph, std::vector{Cut{n.x, "other"}}).status().message(),
              HasSubstr("feed that input"));
  EXPECT_TRUE(cut_at(n.graph, std::vector{Cut{n.w, "w"}}).ok());
  Builder b(n.graph);
  b.output("step", b.add_node(op::kAssignAdd, {n.w, n.scaled}));
  ASSERT_TRUE(b.status().ok());
  EXPECT_THAT(cut_at(n.graph, std::vector{Cut{n.w, "w"}}).status().message(), HasSubstr("cannot be fed"));
}

}  // namespace
}  // namespace trireme::exec
