// Pins and styles: what they mean, and what is refused with a name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/graph/builder.h"
#include "trireme/parallel/shard/style.h"

namespace trireme::parallel {
namespace {

using op::AxisCut;
using ::testing::HasSubstr;

// logits = relu(x a^T) b^T, with the gradients' place taken by the sum.
graph::Graph two_layers() {
  graph::Graph g;
  graph::Builder b(g);
  const graph::Value x = b.input("images", DType::kF32, {64, 256});
  const graph::Value a = b.variable("fc1/weight", DType::kF32, {512, 256});
  const graph::Value w = b.variable("fc2/weight", DType::kF32, {5, 512});
  const graph::Value h = b.relu(b.matmul(x, a, false, true));
  b.output("loss", b.sum(b.matmul(h, w, false, true)));
  return g;
}

Result<AxisLayouts> lay_out(const graph::Graph& g, int parts, const char* style,
                            const std::vector<LayoutPin>& pins) {
  ShardRequest request;
  request.axis = {"model", parts};
  TR_RETURN_IF_ERROR(restrict_to(*find_style(style), pins, g, request));
  return choose_layouts(g, request);
}

TEST(LayoutPin, IsANameAnAxisAndADimension) {
  const LayoutPin pin = *parse_pin("fc*/weight: model=0");
  EXPECT_EQ(pin.pattern, "fc*/weight");
  EXPECT_EQ(pin.axis, "model");
  EXPECT_EQ(pin.cut, AxisCut(0));
  EXPECT_EQ(parse_pin("*/qkv/weight:model=0x3")->cut, AxisCut(0, 3));
  EXPECT_EQ(parse_pin("fc*/weight:model=1x24u100")->cut, AxisCut(1, 24, 100));
  EXPECT_EQ(parse_pin("fc*/weight:model=1u100")->cut, AxisCut(1, 1, 100));
  EXPECT_EQ(parse_pin("conv1: model = replicate")->cut, AxisCut(op::kReplicate));
  for (const char* bad :
       {"fc1/weight", "fc1/weight: model", ": model=0", "fc1: =0", "fc1: model=x", "fc1: model=-1",
        "fc1: model=0x0", "fc1: model=1x", "fc1: model=1x2u0", "fc1: model=1u"}) {
    const auto parsed = parse_pin(bad);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_THAT(parsed.status().message(), HasSubstr("NAME: AXIS=DIMENSION")) << bad;
  }
}

TEST(LayoutPin, MatchesNamesWithStars) {
  EXPECT_TRUE(matches("fc1/weight", "fc1/weight"));
  EXPECT_TRUE(matches("fc*", "fc1/weight"));
  EXPECT_TRUE(matches("*weight", "fc1/weight"));
  EXPECT_TRUE(matches("b*/*/w*", "block1/attention/weight"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_FALSE(matches("fc", "fc1"));
  EXPECT_FALSE(matches("*bias", "fc1/weight"));
}

TEST(Style, PinsStandAndTheRestFollows) {
  const graph::Graph g = two_layers();
  const auto layouts =
      lay_out(g, 2, "price", {*parse_pin("fc1/weight: model=0"), *parse_pin("fc2/weight: model=1")});
  ASSERT_TRUE(layouts.ok()) << layouts.status().message();
  EXPECT_EQ(layouts->cut_of(g, "fc1/weight"), AxisCut(0));
  EXPECT_EQ(layouts->cut_of(g, "fc2/weight"), AxisCut(1));
  // Columns of the first layer are what rows of the second want: one sum at the end is all that moves.
  const auto moves = *reshards_of(g, *layouts, {});
  std::string all;
  for (const ReshardRow& m : moves)
    all += fmt::format("{} of {}, {} to {}\n", m.collective, m.node, m.from.to_text(), m.to.to_text());
  ASSERT_EQ(moves.size(), 1U) << all;
  EXPECT_EQ(moves[0].collective, "allreduce");
}

TEST(Style, OfPinsThatMatchATensorTheLastHolds) {
  const graph::Graph g = two_layers();
  const auto layouts =
      lay_out(g, 2, "tensor", {*parse_pin("*/weight: model=1"), *parse_pin("fc1/*: model=0")});
  ASSERT_TRUE(layouts.ok()) << layouts.status().message();
  EXPECT_EQ(layouts->cut_of(g, "fc1/weight"), AxisCut(0));
  EXPECT_EQ(layouts->cut_of(g, "fc2/weight"), AxisCut(1));
}

TEST(Style, TensorCutsAllThatFitsAndDataNothing) {
  const graph::Graph g = two_layers();
  const auto cut = lay_out(g, 3, "tensor", {}), whole = lay_out(g, 3, "data", {});
  ASSERT_TRUE(cut.ok() && whole.ok());
  for (const char* name : {"fc1/weight", "fc2/weight"}) {
    EXPECT_TRUE(cut->cut_of(g, name).cuts()) << name;
    EXPECT_FALSE(whole->cut_of(g, name).cuts()) << name;
  }
}

TEST(Style, WhatCannotBeIsRefusedByName) {
  const graph::Graph g = two_layers();
  EXPECT_THAT(lay_out(g, 2, "price", {*parse_pin("fc3*: model=0")}).status().message(), HasSubstr("fc3*"));
  EXPECT_THAT(lay_out(g, 7, "price", {*parse_pin("fc2/weight: model=0")}).status().message(),
              HasSubstr("'fc2/weight' is f32[5, 512], which 7 positions cannot have as dim 0"));
  EXPECT_THAT(lay_out(g, 2, "price", {*parse_pin("fc1/weight: model=2")}).status().message(),
              HasSubstr("fc1/weight"));
  EXPECT_THAT(lay_out(g, 2, "price", {*parse_pin("fc2/wieght: model=0")}).status().message(),
              HasSubstr("did you mean fc2/weight, fc1/weight?"));
  EXPECT_THAT(find_style("tensors").status().message(), HasSubstr("one-weird-trick"));
  EXPECT_THAT(find_style("tensors").status().message(), HasSubstr("did you mean tensor?"));
}

TEST(Style, WhatAModelHasNothingForIsRefusedWithTheAxisAndTheFix) {
  const graph::Graph g = two_layers();
  for (const char* style : {"price", "data", "tensor", "one-weird-trick"})
    EXPECT_TRUE(lay_out(g, 3, style, {}).ok()) << style;
  const auto why = [&](const char* style, int parts) {
    return lay_out(g, parts, style, {}).status().message();
  };
  EXPECT_THAT(why("spatial", 2), HasSubstr("style 'spatial' does not fit the model on axis 'model' of 2"));
  EXPECT_THAT(why("spatial", 2), HasSubstr("use a smaller axis, or data or tensor"));
  EXPECT_THAT(why("sequence", 2), HasSubstr("it computes no sequences"));
  EXPECT_EQ(why("data", 64), "");
  EXPECT_THAT(why("data", 65), HasSubstr("fewer samples than the axis has positions"));
  EXPECT_EQ(why("tensor", 512), "");
  EXPECT_THAT(why("tensor", 513), HasSubstr("no weights that so many positions can have parts of"));
}

}  // namespace
}  // namespace trireme::parallel
