#include "trireme/io/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "trireme/tensor/half.h"

namespace trireme::io {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

template <typename T = float>
Tensor vec(std::vector<T> values) {
  return Tensor::from<T>(values, {static_cast<std::int64_t>(values.size())});
}

TensorDiff one(const Tensor& a, const Tensor& b) { return diff_tensors({{"t", a}}, {{"t", b}}).at(0); }

TEST(Compare, EqualBitsAreEqualAlsoOfNan) {
  const Tensor t = vec({1.0F, kNan, -kInf});
  EXPECT_EQ(one(t, vec({1.0F, kNan, -kInf})).relation, TensorRelation::kEqual);
  EXPECT_EQ(one(vec<float>({}), vec<float>({})).relation, TensorRelation::kEqual);
}

TEST(Compare, DifferencesAreCountedAndTheLargestIsFound) {
  const TensorDiff d = one(vec({1.0F, 2.0F, -3.0F, 100.0F}), vec({1.0F, 2.5F, -3.0F, 101.0F}));
  EXPECT_EQ(d.relation, TensorRelation::kDifferent);
  EXPECT_EQ(d.num_different, 2);
  EXPECT_DOUBLE_EQ(d.max_abs, 1.0);
  EXPECT_DOUBLE_EQ(d.max_relative, 0.2);
}

TEST(Compare, EveryTypeIsCompared) {
  EXPECT_DOUBLE_EQ(one(vec<double>({1e300}), vec<double>({-1e300})).max_relative, 2.0);
  EXPECT_DOUBLE_EQ(one(vec<std::int64_t>({5, -7}), vec<std::int64_t>({5, 8})).max_abs, 15.0);
  EXPECT_DOUBLE_EQ(one(vec<std::int32_t>({1 << 30}), vec<std::int32_t>({-(1 << 30)})).max_abs, 2147483648.0);
  EXPECT_DOUBLE_EQ(one(vec<std::uint8_t>({0}), vec<std::uint8_t>({255})).max_abs, 255.0);
  const auto half = [](auto v) { return vec<decltype(v)>({v}); };
  EXPECT_DOUBLE_EQ(one(half(BFloat16(1.0F)), half(BFloat16(1.5F))).max_abs, 0.5);
  EXPECT_DOUBLE_EQ(one(half(Float16(-1.0F)), half(Float16(1.5F))).max_abs, 2.5);
}

TEST(Compare, NumbersAgainstNanOrInfinityAreInfinitelyFarApart) {
  for (const float odd : {kNan, kInf}) {
    const TensorDiff d = one(vec({1.0F}), vec({odd}));
    EXPECT_TRUE(std::isinf(d.max_abs) && std::isinf(d.max_relative));
  }
}

TEST(Compare, ZerosOfOtherSignDifferByNothing) {
  const TensorDiff d = one(vec({0.0F}), vec({-0.0F}));
  EXPECT_EQ(d.relation, TensorRelation::kDifferent) << "other bits";
  EXPECT_EQ(d.num_different, 1);
  EXPECT_EQ(d.max_abs, 0);
  EXPECT_EQ(d.max_relative, 0);
}

TEST(Compare, AStridedViewEqualsItsCopy) {
  const Tensor whole = Tensor::from<float>(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  const int order[] = {1, 0};
  EXPECT_EQ(
      one(whole.transpose(order), Tensor::from<float>(std::vector<float>{1, 4, 2, 5, 3, 6}, {3, 2})).relation,
      TensorRelation::kEqual);
}

TEST(Compare, MissingAndOtherTypesAreNamedInTheOrderOfTheFirst) {
  const NamedTensors a = {
      {"z", vec({1.0F})}, {"shape", vec({1.0F})}, {"type", vec({1.0F})}, {"same", vec({1.0F})}};
  const NamedTensors b = {{"new", vec({1.0F})},
                          {"same", vec({1.0F})},
                          {"shape", vec({1.0F, 2.0F})},
                          {"type", vec<double>({1.0})}};
  const auto diffs = diff_tensors(a, b);
  std::vector<std::pair<std::string, TensorRelation>> seen;
  for (const TensorDiff& d : diffs) seen.emplace_back(d.name, d.relation);
  EXPECT_EQ(seen,
            (std::vector<std::pair<std::string, TensorRelation>>{{"z", TensorRelation::kOnlyFirst},
                                                                 {"shape", TensorRelation::kOtherType},
                                                                 {"type", TensorRelation::kOtherType},
                                                                 {"same", TensorRelation::kEqual},
                                                                 {"new", TensorRelation::kOnlySecond}}));
  EXPECT_FALSE(all_equal(diffs));
  EXPECT_TRUE(all_equal(diff_tensors(a, a)));
  EXPECT_TRUE(all_equal({}));
}

TEST(Compare, NonFiniteValuesAreCountedInFloatingTypes) {
  const NonFiniteCount c = count_non_finite(vec({1.0F, kNan, kInf, -kInf, 0.0F}));
  EXPECT_EQ(c.nans, 1);
  EXPECT_EQ(c.infinities, 2);
  EXPECT_EQ(count_non_finite(vec<BFloat16>({BFloat16(kNan)})).nans, 1);
  EXPECT_EQ(count_non_finite(vec<Float16>({Float16(-kInf)})).infinities, 1);
  EXPECT_EQ(count_non_finite(vec<std::int64_t>({INT64_MIN, -1})).nans, 0);
}

}  // namespace
}  // namespace trireme::io
