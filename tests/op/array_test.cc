// Ops that move elements: values from their definitions, edges, errors.
#include "tests/op/values.h"

namespace trireme::op::testing {
namespace {

const Tensor kSix = f64({1, 2, 3, 4, 5, 6}, {2, 3});
constexpr std::int64_t kBig = std::int64_t{1} << 40;

TEST(Concat, PutsInputsOneAfterTheOther) {
  EXPECT_EQ(values(kConcat, {kSix, f64({7, 8, 9}, {1, 3})}), (Doubles{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(values(kConcat, {kSix, f64({7, 8}, {2, 1})}, {{"axis", -1}}), (Doubles{1, 2, 3, 7, 4, 5, 6, 8}));
  expect_refused(kConcat, {}, {}, "[op concat] inputs: got none");
  expect_refused(kConcat, {f32_type({2, 3}), f32_type({2, 4})}, {},
                 "[op concat] input 1: got f32[2, 4], expected f32[2, 3] but for the size of dimension 0");
  expect_refused(kConcat, {f32_type({2}), f32_type({2, 4})}, {}, "[op concat] input 1: got f32[2, 4]");
  expect_refused(kConcat, {f32_type({2}), {DType::kF64, {2}}}, {}, "[op concat] input 1: got f64[2]");
  expect_refused(kConcat, {f32_type({})}, {}, "[op concat] attribute 'axis': got 0 for f32[]");
  const TensorType half = f32_type({std::int64_t{1} << 62});
  expect_refused(kConcat, {half, half, half}, {},
                 "[op concat] inputs: got sizes along dimension 0 that add up");
}

TEST(Split, IsTheOppositeOfConcat) {
  const Attrs attrs{{"axis", 1}, {"sizes", Ints{1, 2}}};
  EXPECT_EQ(values(kSplit, {kSix}, attrs, 0), (Doubles{1, 4}));
  EXPECT_EQ(values(kSplit, {kSix}, attrs, 1), (Doubles{2, 3, 5, 6}));
  for (const Ints& sizes : {Ints{1, 1}, Ints{4, -1}, Ints{5}, Ints{}})
    expect_refused(kSplit, {f32_type({2, 3})}, {{"axis", 1}, {"sizes", sizes}},
                   "[op split] attribute 'sizes': got [");
}

TEST(PartBegin, IsTheFirstIndexOfAPosition) {
  const auto begin = [](std::int64_t position) {
    return values<std::int64_t>(kPartBegin, {i64({position}, {})}, {{"size", 7}, {"parts", 3}})[0];
  };
  EXPECT_EQ(begin(0), 0);
  EXPECT_EQ(begin(1), 3);
  EXPECT_EQ(begin(2), 5);
  EXPECT_EQ(begin(3), 7);
  EXPECT_EQ(begin(9), 7);
  EXPECT_EQ(begin(-1), 0);
  expect_refused(kPartBegin, {{DType::kI64, {}}}, {{"size", 7}, {"parts", 0}},
                 "[op part_begin] attribute 'parts': got 0");
  expect_refused(kPartBegin, {{DType::kI64, {1}}}, {{"size", 7}, {"parts", 2}},
                 "[op part_begin] position: got i64[1], expected i64[]");
}

TEST(TakePart, IsWhatAPositionHas) {
  const auto part = [](std::int64_t position, std::int64_t extent) {
    return values(kTakePart, {kSix, i64({position}, {})},
                  {{"dim", -1}, {"parts", 2}, {"sizes", Ints{2, 1}}, {"extent", extent}});
  };
  EXPECT_EQ(part(0, 2), (Doubles{1, 2, 4, 5}));
  EXPECT_EQ(part(1, 1), (Doubles{3, 6}));
  EXPECT_EQ(part(2, 1), (Doubles{0, 0})) << "there is no such position";
  EXPECT_EQ(part(1, 2), (Doubles{3, 0, 6, 0})) << "its part is shorter";
  EXPECT_EQ(values(kTakePart, {kSix, i64({1}, {})}, {{"parts", 2}}), (Doubles{4, 5, 6}));
  const std::vector<TensorType> in{f32_type({2, 3}), {DType::kI64, {}}};
  expect_refused(kTakePart, in, {{"dim", 1}, {"parts", 2}},
                 "[op take_part] x: got f32[2, 3], expected dimension 1 to be a multiple of 2 parts");
  expect_refused(kTakePart, in, {{"parts", 2}, {"sizes", Ints{1, 2}}},
                 "[op take_part] attribute 'sizes': got 1, 2, expected sizes that add up to dimension 0");
  expect_refused(kTakePart, in, {{"parts", 3}, {"sizes", Ints{1, 1}}},
                 "[op take_part] attribute 'sizes': got 2 sizes, expected one for each of 3 parts");
  expect_refused(kTakePart, in, {{"parts", 2}, {"extent", 1}},
                 "[op take_part] attribute 'extent': got 1, expected -1 where there are no sizes");
}

TEST(Slice, TakesABox) {
  const auto slice = [](Ints begin, Ints end, Ints step = {}) {
    return values(kSlice, {kSix}, {{"begin", begin}, {"end", end}, {"step", step}});
  };
  EXPECT_EQ(slice({0, 1}, {2, 3}), (Doubles{2, 3, 5, 6}));
  EXPECT_EQ(slice({0, 1}, {0, 0}), (Doubles{2, 3, 5, 6}));  // 0: up to the end
  EXPECT_EQ(slice({0, 0}, {0, -1}), (Doubles{1, 2, 4, 5}));
  EXPECT_EQ(slice({-1, -2}, {0, 0}), (Doubles{5, 6}));
  EXPECT_EQ(slice({0, 0}, {0, 0}, {1, 2}), (Doubles{1, 3, 4, 6}));
  EXPECT_EQ(slice({0, 0}, {99, 99}, {2, 5}), Doubles{1});
  EXPECT_EQ(slice({0, 2}, {0, 1}), Doubles{});
  EXPECT_EQ(slice({-99, 0}, {INT64_MIN, 0}), Doubles{});
  expect_refused(kSlice, {f32_type({2, 3})}, {{"begin", Ints{0}}, {"end", Ints{0, 0}}},
                 "[op slice] attribute 'begin': got [0] for f32[2, 3], expected one entry per dimension");
  expect_refused(kSlice, {f32_type({2})}, {{"begin", Ints{0}}, {"end", Ints{0}}, {"step", Ints{0}}},
                 "[op slice] attribute 'step': got 0, expected at least 1");
}

TEST(SliceGrad, PutsTheBoxBack) {
  const Attrs attrs{{"begin", Ints{1}}, {"end", Ints{0}}, {"step", Ints{2}}, {"shape", Ints{5}}};
  EXPECT_EQ(values(kSliceGrad, {f64({7, 8})}, attrs), (Doubles{0, 7, 0, 8, 0}));
  expect_refused(kSliceGrad, {f32_type({3})}, attrs, "[op slice_grad] dy: got shape [3], expected [2]");
}

TEST(Pad, PutsABorderAround) {
  const Attrs attrs{{"low", Ints{0, 1}}, {"high", Ints{1, 0}}, {"value", 9.0}};
  EXPECT_EQ(values(kPad, {kSix}, attrs), (Doubles{9, 1, 2, 3, 9, 4, 5, 6, 9, 9, 9, 9}));
  expect_refused(kPad, {f32_type({2})}, {{"low", Ints{-1}}, {"high", Ints{0}}},
                 "[op pad] attribute 'low': got -1, expected at least 0");
  expect_refused(kPad, {f32_type({2})}, {{"low", Ints{INT64_MAX}}, {"high", Ints{0}}},
                 "[op pad] attributes 'low', 'high': got");
  expect_refused(kPad, {f32_type({2, 2})}, {{"low", Ints{kBig, kBig}}, {"high", Ints{0, 0}}},
                 "[op pad] the result: [shape] too many elements");
}

TEST(Tile, Repeats) {
  EXPECT_EQ(values(kTile, {f64({1, 2}, {1, 2})}, {{"times", Ints{2, 2}}}), (Doubles{1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(values(kTile, {f64({1, 2}, {2, 1})}, {{"times", Ints{1, 3}}}), (Doubles{1, 1, 1, 2, 2, 2}));
  expect_refused(kTile, {f32_type({2, 3})}, {{"times", Ints{2}}},
                 "[op tile] attribute 'times': got [2] for f32[2, 3]");
  expect_refused(kTile, {f32_type({2})}, {{"times", Ints{-1}}}, "[op tile] attribute 'times': got -1");
  expect_refused(kTile, {f32_type({2})}, {{"times", Ints{INT64_MAX}}}, "[op tile] attribute 'times': got");
  expect_refused(kTile, {f32_type({2, 2})}, {{"times", Ints{kBig, kBig}}},
                 "[op tile] the result: [shape] too many elements");
}

TEST(Reverse, TurnsDimensionsAround) {
  EXPECT_EQ(values(kReverse, {kSix}), (Doubles{6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(values(kReverse, {kSix}, {{"axes", Ints{0}}}), (Doubles{4, 5, 6, 1, 2, 3}));
  expect_refused(kReverse, {f32_type({2})}, {{"axes", Ints{1}}},
                 "[op reverse] attribute 'axes': got [1] for f32[2]");
}

TEST(Cumsum, AddsFromEitherEnd) {
  EXPECT_EQ(values(kCumsum, {kSix}), (Doubles{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(values(kCumsum, {kSix}, {{"axis", 0}, {"reverse", true}}), (Doubles{5, 7, 9, 4, 5, 6}));
  EXPECT_EQ(values<std::int64_t>(kCumsum, {i64({INT64_MAX, 1})}), (Ints{INT64_MAX, INT64_MIN}));
}

TEST(Gather, TakesRowsAndZerosForBadIndices) {
  EXPECT_EQ(values(kGather, {kSix, i64({1, 0, 1})}), (Doubles{4, 5, 6, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values(kGather, {kSix, i64({2, 0}, {2})}, {{"axis", 1}}), (Doubles{3, 1, 6, 4}));
  EXPECT_EQ(values(kGather, {kSix, i64({-1, 2, INT64_MAX, INT64_MIN})}), Doubles(12, 0.0));
  EXPECT_EQ(shape_of(kGather, {kSix, i64({0, 0, 0, 0}, {2, 2})}, {{"axis", 1}}), (Shape{2, 2, 2}));
  expect_refused(kGather, {f32_type({2}), f32_type({2})}, {},
                 "[op gather] indices: got f32[2], expected i64 or i32");
  expect_refused(kGather, {f32_type({}), {DType::kI64, {2}}}, {},
                 "[op gather] attribute 'axis': got 0 for f32[]");
  expect_refused(kGather, {f32_type({1, kBig}), {DType::kI64, {kBig}}}, {},
                 "[op gather] the result: [shape] too many elements");
}

TEST(ScatterAdd, AddsRowsAndSkipsBadIndices) {
  const Attrs attrs{{"shape", Ints{3, 2}}};
  const Tensor updates = f64({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2});
  EXPECT_EQ(values(kScatterAdd, {updates, i64({2, 0, 2, 3})}, attrs), (Doubles{3, 4, 0, 0, 6, 8}));
  EXPECT_EQ(values(kScatterAdd, {updates, i64({-1, INT64_MIN, INT64_MAX, 1})}, attrs),
            (Doubles{0, 0, 7, 8, 0, 0}));
  // 256 + 1 + 1 in bf16, rounded once: 258. Rounded each time it would stay 256.
  const Tensor narrow = as(DType::kBF16, f64({256, 1, 1}));
  const Tensor y = (*run_op(kScatterAdd, {narrow, i64({0, 0, 0})}, {{"shape", Ints{1}}}))[0];
  EXPECT_EQ(values(kCast, {y}, {{"dtype", DType::kF64}}), Doubles{258});
  expect_refused(kScatterAdd, {f32_type({4, 3}), {DType::kI64, {4}}}, attrs,
                 "[op scatter_add] updates: got shape [4, 3], expected [4, 2]");
}

TEST(OneHot, HasAOneAtTheIndex) {
  EXPECT_EQ(values<float>(kOneHot, {i64({1, 0, 3, -1})}, {{"depth", 3}}),
            (std::vector<float>{0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}));
  expect_refused(kOneHot, {{DType::kI64, {2}}}, {{"depth", -1}}, "[op one_hot] attribute 'depth': got -1");
}

TEST(Range, CountsUpAndDown) {
  EXPECT_EQ(values<std::int64_t>(kRange, {}, {{"limit", 4.0}}), (Ints{0, 1, 2, 3}));
  EXPECT_EQ(values(kRange, {}, {{"start", 1.0}, {"limit", -0.5}, {"step", -0.5}, {"dtype", DType::kF64}}),
            (Doubles{1, 0.5, 0}));
  EXPECT_EQ(values<std::int64_t>(kRange, {}, {{"start", 4.0}, {"limit", 4.0}}), Ints{});
  for (const Attrs& bad :
       {Attrs{{"limit", 4.0}, {"step", 0.0}}, Attrs{{"limit", kNan}}, Attrs{{"limit", kInf}}})
    expect_refused(kRange, {}, bad, "[op range] attributes 'start', 'limit', 'step': got");
  expect_refused(kRange, {}, {{"limit", 2.0}, {"dtype", DType::kBool}},
                 "[op range] attribute 'dtype': got bool");
}

TEST(Types, AreReadWithoutTheElements) {
  EXPECT_EQ(values<std::int64_t>(kShape, {kSix}), (Ints{2, 3}));
  EXPECT_EQ(values<std::int64_t>(kRank, {kSix}), Ints{2});
  EXPECT_EQ(values<std::int64_t>(kSize, {kSix}), Ints{6});
  EXPECT_EQ(values(kFillLike, {kSix}, {{"value", 2.5}}), Doubles(6, 2.5));
  EXPECT_EQ(values<std::int64_t>(kShape, {f64({1}, {})}), Ints{});
}

}  // namespace
}  // namespace trireme::op::testing
