#include "trireme/parallel/segment/segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/op/ops.h"

namespace trireme::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Four layers of rectifiers; the last one also reads what the first one made.
graph::Graph four_layers() {
  graph::Graph g;
  graph::Builder b(g);
  op::Value x = b.input("images", DType::kF32, {2, 4}), first;
  for (const char* name : {"a", "b", "c", "d"}) {
    g.push_scope(name);
    if (*name == 'd') x = b.add(x, first);
    x = b.relu(b.matmul(x, b.variable("weight", DType::kF32, {4, 4})));
    if (*name == 'a') first = x;
    g.pop_scope();
  }
  b.output("loss", b.sum(x));
  TR_CHECK(b.status().ok(), "{}", b.status().to_string());
  return g;
}

std::vector<std::string> names_of(const LayerList& list) {
  std::vector<std::string> names;
  for (const Layer& layer : list.layers) names.push_back(layer.name);
  return names;
}

SegmentedModel cut(const graph::Graph& g, std::int32_t segments, std::vector<std::string> trained) {
  const LayerList list = layers_of(g);
  const auto cuts = balanced_cuts(list, segments);
  TR_CHECK(cuts.ok(), "{}", cuts.status().to_string());
  auto model = cut_model({&g, &list, *cuts, std::move(trained)});
  TR_CHECK(model.ok(), "{}", model.status().to_string());
  return std::move(*model);
}

TEST(Layers, AreWhatWasBuiltInOneScope) {
  const graph::Graph g = four_layers();
  const LayerList list = layers_of(g);
  EXPECT_THAT(names_of(list), ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(list.layer_of[static_cast<std::size_t>(g.find_variable("b/weight")->node)], -1);
  EXPECT_EQ(list.layer_of[static_cast<std::size_t>(g.find_output("loss")->node)], 3) << "built in no scope";
}

TEST(Cuts, MakeTheSlowestSegmentFast) {
  LayerList list;
  for (const double seconds : {1.0, 1.0, 1.0, 3.0, 1.0, 1.0}) list.layers.push_back({"", 0, seconds});
  EXPECT_THAT(balanced_cuts(list, 1)->layers, IsEmpty());
  EXPECT_THAT(balanced_cuts(list, 3)->layers, ElementsAre(3, 4));
  EXPECT_THAT(balanced_cuts(list, 2, std::vector<double>{2, 1})->layers, ElementsAre(4));
  EXPECT_THAT(balanced_cuts(list, 6)->layers, ElementsAre(1, 2, 3, 4, 5));
}

TEST(Cuts, AreRefusedWhereThereIsNoLayer) {
  const graph::Graph g = four_layers();
  const LayerList list = layers_of(g);
  EXPECT_THAT(balanced_cuts(list, 5).status().message(), HasSubstr("4 layers between which it can be cut"));
  const auto refused = [&](std::vector<std::string> names) {
    return named_cuts(g, list, names).status().message();
  };
  EXPECT_THAT(named_cuts(g, list, std::vector<std::string>{"b", "d"})->layers, ElementsAre(1, 3));
  EXPECT_THAT(refused({"bb"}), HasSubstr("did you mean b?"));
  EXPECT_THAT(refused({"c/relu"}), HasSubstr("'c/relu' is inside of layer 'c'"));
  EXPECT_THAT(refused({"c/conv"}), HasSubstr("no layer is called 'c/conv'"));
  EXPECT_THAT(refused({"a"}), HasSubstr("is the first layer"));
  EXPECT_THAT(refused({"c", "b"}), HasSubstr("'b' does not come behind 'c'"));
}

TEST(Segments, PassOnWhatLaterOnesRead) {
  const SegmentedModel model = cut(four_layers(), 4, {"a/weight", "b/weight", "c/weight", "d/weight"});
  ASSERT_EQ(model.crossings.size(), 3U);
  const Crossing& skip = model.crossings[0];
  EXPECT_EQ(skip.from, 0);
  EXPECT_EQ(skip.last, 3);
  EXPECT_THAT(skip.readers, ElementsAre(1, 3));
  EXPECT_TRUE(skip.comes_back);
  EXPECT_EQ(model.between(0).size(), 1U);
  EXPECT_EQ(model.between(1).size(), 2U);
  EXPECT_THAT(model.segments[1].backward, ElementsAre(skip.back()));
  EXPECT_TRUE(model.segments[1].graph.find_input(skip.back())) << "the gradient of the fourth is added";
  EXPECT_FALSE(model.segments[2].graph.find_input(skip.name)) << "it passes by";
  EXPECT_THAT(model.segments[2].weights, ElementsAre("grad:c/weight"));
}

TEST(Segments, OfFrozenLayersHaveNoBackward) {
  const SegmentedModel model = cut(four_layers(), 4, {"c/weight", "d/weight"});
  for (const std::size_t s : {0, 1}) {
    EXPECT_THAT(model.segments[s].backward, IsEmpty());
    EXPECT_THAT(model.segments[s].weights, IsEmpty());
  }
  EXPECT_THAT(model.segments[2].backward, IsEmpty()) << "nobody wants the gradient";
  EXPECT_THAT(model.segments[2].weights, ElementsAre("grad:c/weight"));
  for (const Crossing& c : model.crossings) EXPECT_EQ(c.comes_back, c.from == 2) << c.name;
}

TEST(Segments, ReadOneParameterTwice) {
  graph::Graph g;
  graph::Builder b(g);
  op::Value x = b.input("images", DType::kF32, {2, 4});
  const op::Value shared = b.variable("shared", DType::kF32, {4, 4});
  for (const char* name : {"a", "b", "c"}) {
    g.push_scope(name);
    x = b.mul(*name == 'b' ? x : b.matmul(x, shared), b.variable("scale", DType::kF32, {2, 4}));
    g.pop_scope();
  }
  b.output("loss", b.sum(x));
  const SegmentedModel model = cut(g, 3, {"shared"});
  EXPECT_THAT(model.segments[0].weights, ElementsAre("grad:shared"));
  EXPECT_THAT(model.segments[1].weights, IsEmpty());
  EXPECT_THAT(model.segments[2].weights, ElementsAre("grad:shared"));
  EXPECT_EQ(model.crossings.size(), 2U) << "a weight does not travel";
}

}  // namespace
}  // namespace trireme::parallel
