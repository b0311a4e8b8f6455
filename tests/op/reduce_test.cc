// Reductions: values from their definitions, edges, errors.
#include "tests/op/values.h"

namespace trireme::op::testing {
namespace {

TEST(Reductions, FoldTheDimensionsTheyName) {
  const Tensor x = f64({1, -2, 3, 4, 5, -6}, {2, 3});
  EXPECT_EQ(values(kMin, {x}), Doubles{-6});
  EXPECT_EQ(values(kMin, {x}, {{"axes", Ints{0}}}), (Doubles{1, -2, -6}));
  EXPECT_EQ(values(kProd, {x}, {{"axes", Ints{1}}}), (Doubles{-6, -120}));
  EXPECT_EQ(values(kProd, {f64({}, {0})}), Doubles{1});
  EXPECT_EQ(shape_of(kProd, {x}, {{"axes", Ints{-1}}, {"keep_dims", true}}), (Shape{2, 1}));
  EXPECT_EQ(values<std::int64_t>(kArgmin, {x}), (Ints{1, 2}));
  EXPECT_EQ(values<std::int64_t>(kArgmin, {f64({2, 1, 1, kNan, 0, kNan}, {2, 3})}), (Ints{1, 0}));
  EXPECT_TRUE(std::isnan(values(kMin, {f64({1, kNan})})[0]));
}

TEST(Reductions, AnyAndAllOfBools) {
  const Tensor x = *bools({1, 0, 0, 1, 1, 1}).reshape({2, 3});
  EXPECT_EQ(flags(kAny, {x}, {{"axes", Ints{1}}}), (std::vector<int>{1, 1}));
  EXPECT_EQ(flags(kAll, {x}, {{"axes", Ints{1}}}), (std::vector<int>{0, 1}));
  EXPECT_EQ(flags(kAny, {bools({})}), std::vector<int>{0});
  EXPECT_EQ(flags(kAll, {bools({})}), std::vector<int>{1});
}

TEST(Logsumexp, SurvivesLargeValuesAndInfinities) {
  expect_near(values(kLogsumexp, {f64({1000, 1000})}), {1000 + std::log(2.0)});
  expect_near(values(kLogsumexp, {f64({-1000, -1001})}), {-1000 + std::log1p(std::exp(-1.0))});
  EXPECT_EQ(values(kLogsumexp, {f64({-kInf, -kInf})}), Doubles{-kInf});
  EXPECT_EQ(values(kLogsumexp, {f64({0, kInf})}), Doubles{kInf});
  EXPECT_EQ(values(kLogsumexp, {f64({}, {0})}), Doubles{-kInf});
  EXPECT_TRUE(std::isnan(values(kLogsumexp, {f64({0, kNan, kInf})})[0]));
}

TEST(Reductions, SayWhatIsWrongWithACall) {
  expect_refused(
      kMin, {f32_type({2, 3})}, {{"axes", Ints{0, -2}}},
      "[op min] attribute 'axes': got [0, -2] for f32[2, 3], expected distinct dimensions in [-2, 2)");
  expect_refused(kMin, {f32_type({2, 0})}, {{"axes", Ints{1}}},
                 "[op min] x: got f32[2, 0], expected at least one element along the reduced dimensions");
  expect_refused(kArgmin, {f32_type({2, 3})}, {{"axis", 2}},
                 "[op argmin] attribute 'axis': got 2 for f32[2, 3], expected a dimension in [-2, 2)");
  expect_refused(kArgmin, {f32_type({2, 0})}, {},
                 "[op argmin] x: got f32[2, 0], expected at least one element");
  expect_refused(kAll, {f32_type({2})}, {}, "[op all] x: got f32[2], expected bool");
  expect_refused(kLogsumexp, {{DType::kI64, {2}}}, {}, "[op logsumexp] x: got i64[2], expected f64, f32");
}

}  // namespace
}  // namespace trireme::op::testing
