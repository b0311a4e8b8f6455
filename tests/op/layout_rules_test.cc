// Cuts that must be offered, by name; the conformance suite proves whatever is offered.
#include <algorithm>

#include "tests/op/values.h"

namespace trireme::op::testing {
namespace {

using Cuts = std::vector<AxisCut>;

std::vector<LayoutOption> options(const OpDef& def, const std::vector<Shape>& shapes, const Attrs& attrs,
                                  DType dtype = DType::kF32) {
  std::vector<TensorType> in;
  for (const Shape& s : shapes) in.push_back({dtype, s});
  const Attrs complete = *complete_attrs(def, attrs);
  return layout_options(def, in, *infer_types(def, in, complete), complete);
}

bool has(const std::vector<LayoutOption>& offered, const Cuts& inputs, const Cuts& outputs) {
  return std::any_of(offered.begin(), offered.end(),
                     [&](const LayoutOption& o) { return o.inputs == inputs && o.outputs == outputs; });
}

TEST(LayoutRules, ReshapeCutsFactorsOfWhatItSplitsAndMerges) {
  const auto heads = options(kReshape, {{2, 3, 12}}, {{"shape", Ints{2, 3, 4, 3}}});
  EXPECT_TRUE(has(heads, {AxisCut(2, 1, 3)}, {2})) << "a part of the heads";
  EXPECT_TRUE(has(heads, {AxisCut(2, 4)}, {3})) << "a part of every head";
  EXPECT_TRUE(has(heads, {0}, {0}));
  EXPECT_TRUE(has(heads, {1}, {1}));
  const auto flat = options(kReshape, {{2, 5, 3, 4}}, {{"shape", Ints{2, -1}}});
  EXPECT_TRUE(has(flat, {1}, {AxisCut(1, 1, 12)})) << "channels";
  EXPECT_TRUE(has(flat, {3}, {AxisCut(1, 15)})) << "columns";
  const auto rows = options(kReshape, {{2, 3, 5}}, {{"shape", Ints{6, 5}}});
  EXPECT_TRUE(has(rows, {0}, {AxisCut(0, 1, 3)}));
  EXPECT_TRUE(has(rows, {1}, {AxisCut(0, 2)}));
  EXPECT_TRUE(has(rows, {2}, {1}));
  EXPECT_TRUE(has(rows, {kPartial}, {kPartial}));
}

TEST(LayoutRules, EqualPiecesAreBlocks) {
  const Attrs thirds{{"axis", 1}, {"sizes", Ints{4, 4, 4}}};
  EXPECT_TRUE(has(options(kSplit, {{2, 12}}, thirds), {AxisCut(1, 3)}, {1, 1, 1}));
  EXPECT_TRUE(has(options(kConcat, {{2, 4}, {2, 4}}, {{"axis", 1}}), {1, 1}, {AxisCut(1, 2)}));
  EXPECT_FALSE(has(options(kConcat, {{2, 4}, {2, 3}}, {{"axis", 1}}), {1, 1}, {AxisCut(1, 2)}));
  EXPECT_TRUE(has(options(kTile, {{2, 4}}, {{"times", Ints{1, 3}}}), {1}, {AxisCut(1, 3)}));
  const Attrs second{{"begin", Ints{0, 4}}, {"end", Ints{0, 8}}};
  EXPECT_TRUE(has(options(kSlice, {{2, 12}}, second), {AxisCut(1, 3)}, {1}));
  Attrs back = second;
  back.set("shape", Ints{2, 12});
  EXPECT_TRUE(has(options(kSliceGrad, {{2, 4}}, back), {1}, {AxisCut(1, 3)}));
  EXPECT_FALSE(
      has(options(kSlice, {{2, 12}}, {{"begin", Ints{0, 3}}, {"end", Ints{0, 7}}}), {AxisCut(1, 3)}, {1}));
}

TEST(LayoutRules, ReductionsTakeACutAlongWhatTheyReduce) {
  const Attrs columns{{"axes", Ints{1}}};
  EXPECT_TRUE(has(options(kSum, {{2, 6}}, columns), {1}, {kPartial}));
  EXPECT_TRUE(has(options(kMean, {{2, 6}}, columns), {1}, {kPartial}));
  EXPECT_TRUE(has(options(kMax, {{2, 6}}, columns), {1}, {kPartialMax}));
  EXPECT_TRUE(has(options(kLogsumexp, {{2, 6}}, columns), {1}, {kReplicate}));
}

TEST(LayoutRules, PartialSumsPassWhereNothingIsLost) {
  const Cuts partial{kPartial};
  EXPECT_TRUE(has(options(kCast, {{2}}, {{"dtype", DType::kF64}}), partial, partial));
  EXPECT_FALSE(has(options(kCast, {{2}}, {{"dtype", DType::kBF16}}), partial, partial));
  EXPECT_FALSE(has(options(kCast, {{2}}, {{"dtype", DType::kF32}}, DType::kI64), partial, partial));
  const Attrs border{{"low", Ints{1}}, {"high", Ints{0}}};
  EXPECT_TRUE(has(options(kPad, {{2}}, border), partial, partial));
  Attrs ones = border;
  ones.set("value", 1.0);
  EXPECT_FALSE(has(options(kPad, {{2}}, ones), partial, partial));
  EXPECT_FALSE(has(options(kStopGradient, {{2}}, {}, DType::kBool), partial, partial));
  EXPECT_TRUE(has(options(kAdd, {{2}, {2}}, {}), {kPartial, kPartial}, partial));
  EXPECT_FALSE(has(options(kAdd, {{2}, {2}}, {}), {kPartial, kReplicate}, partial));
  EXPECT_TRUE(has(options(kMul, {{2}, {2}}, {}), {kReplicate, kPartial}, partial));
}

TEST(LayoutRules, AreRefinedUnlessTheyDependOnIndices) {
  const LayoutOption plain{{AxisCut(1, 3), kReplicate}, {AxisCut(0, 1, 4), kPartial}};
  const auto finer = refined(plain, 2, 5);
  ASSERT_TRUE(finer.has_value());
  EXPECT_EQ(finer->inputs, (Cuts{AxisCut(1, 6, 5), kReplicate}));
  EXPECT_EQ(finer->outputs, (Cuts{AxisCut(0, 2, 20), kPartial}));
  LayoutOption by_index = plain;
  by_index.rewritten = true;
  EXPECT_FALSE(refined(by_index, 2, 1).has_value());
  EXPECT_EQ(part_sizes(AxisCut(0, 3, 2), 30, 2), (Ints{18, 12}));
  EXPECT_EQ(AxisCut(1, 3, 16).to_text(), "dim 1 in 3 blocks of 16-index units");
  EXPECT_EQ(AxisCut(0, 1, 4).to_text(), "dim 0 in 4-index units");
}

}  // namespace
}  // namespace trireme::op::testing
