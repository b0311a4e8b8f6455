// Elementwise ops: values from their definitions, edges, errors.
#include <bit>
#include <numbers>

#include "tests/op/values.h"
#include "trireme/tensor/half.h"

namespace trireme::op::testing {
namespace {

TEST(Elementwise, UnaryFunctionsHaveTheirKnownValues) {
  EXPECT_EQ(values(kAbs, {f64({-1.5, 0, 2})}), (Doubles{1.5, 0, 2}));
  EXPECT_EQ(values(kSign, {f64({-1.5, 0, 2})}), (Doubles{-1, 0, 1}));
  EXPECT_EQ(values(kReciprocal, {f64({4, -0.5, 0})}), (Doubles{0.25, -2, kInf}));
  EXPECT_EQ(values(kRsqrt, {f64({4, 0.25, 0})}), (Doubles{0.5, 2, kInf}));
  expect_near(values(kExpm1, {f64({0, 1, 1e-20})}), {0, std::numbers::e - 1, 1e-20}, 1e-15);
  expect_near(values(kLog1p, {f64({0, std::numbers::e - 1, 1e-20})}), {0, 1, 1e-20}, 1e-15);
  expect_near(values(kSin, {f64({0, std::numbers::pi / 6, std::numbers::pi / 2})}), {0, 0.5, 1});
  expect_near(values(kCos, {f64({0, std::numbers::pi / 3, std::numbers::pi})}), {1, 0.5, -1});
  expect_near(values(kErf, {f64({0, 1, -kInf})}), {0, 0.8427007929497149, -1});
  EXPECT_EQ(values(kFloor, {f64({-1.5, 1.5, 2})}), (Doubles{-2, 1, 2}));
  EXPECT_EQ(values(kCeil, {f64({-1.5, 1.5, 2})}), (Doubles{-1, 2, 2}));
  EXPECT_EQ(values(kRound, {f64({0.5, 1.5, 2.5, -0.5, 2.6})}), (Doubles{0, 2, 2, -0.0, 3}));
}

TEST(Elementwise, ActivationsHaveTheirKnownValues) {
  expect_near(values(kSoftplus, {f64({0, 1000, -1000})}), {std::log(2.0), 1000, 0});
  expect_near(values(kElu, {f64({2, -1, 0})}, {{"alpha", 0.5}}), {2, 0.5 * (std::exp(-1.0) - 1), 0});
  EXPECT_EQ(values(kLeakyRelu, {f64({3, -4, 0})}, {{"slope", 0.25}}), (Doubles{3, -1, 0}));
  expect_near(values(kSilu, {f64({0, 1, -1000})}), {0, 1 / (1 + std::exp(-1.0)), 0});
  // PyTorch 2: gelu(1), and its tanh form.
  expect_near(values(kGelu, {f64({1, 0, -1})}), {0.8413447460685429, 0, -0.15865525393145707});
  expect_near(values(kGelu, {f64({1})}, {{"tanh", true}}), {0.8411919906082768});
  EXPECT_EQ(values(kClip, {f64({-3, 0.5, 9})}, {{"low", -1.0}, {"high", 2.0}}), (Doubles{-1, 0.5, 2}));
}

TEST(Elementwise, BinaryFunctionsHaveTheirKnownValues) {
  expect_near(values(kPow, {f64({2, 9, 2, 0, -2}), f64({10, 0.5, -1, 0, 3})}), {1024, 3, 0.5, 1, -8});
  EXPECT_EQ(values(kMaximum, {f64({1, 5}), f64({3, 4})}), (Doubles{3, 5}));
  EXPECT_EQ(values(kMinimum, {f64({1, 5}), f64({3, 4})}), (Doubles{1, 4}));
  EXPECT_EQ(values(kSquaredDifference, {f64({1, 5}), f64({3, 4})}), (Doubles{4, 1}));
}

TEST(Elementwise, NanIsKeptWhereItMeansSomething) {
  for (const OpDef* d : {&kMaximum, &kMinimum}) {
    EXPECT_TRUE(std::isnan(values(*d, {f64({kNan}), f64({1})})[0])) << d->name;
    EXPECT_TRUE(std::isnan(values(*d, {f64({1}), f64({kNan})})[0])) << d->name;
  }
  for (const OpDef* d : {&kClip, &kSign, &kAbs})
    EXPECT_TRUE(std::isnan(values(*d, {f64({kNan})})[0])) << d->name;
  EXPECT_EQ(flags(kEqual, {f64({kNan}), f64({kNan})}), std::vector<int>{0});
  EXPECT_EQ(flags(kNotEqual, {f64({kNan}), f64({kNan})}), std::vector<int>{1});
  for (const OpDef* d : {&kLess, &kLessEqual, &kGreater, &kGreaterEqual})
    EXPECT_EQ(flags(*d, {f64({kNan}), f64({1})}), std::vector<int>{0}) << d->name;
}

TEST(Elementwise, IntegersOfEachWidthWrapOrStay) {
  EXPECT_EQ(values<std::int64_t>(kAbs, {i64({INT64_MIN, -3})}), (Ints{INT64_MIN, 3}));
  EXPECT_EQ(values<std::int64_t>(kSign, {i64({-7, 0, 7})}), (Ints{-1, 0, 1}));
  const Tensor bytes = as(DType::kU8, i64({200, 3})), more = as(DType::kU8, i64({100, 5}));
  EXPECT_EQ(values<std::uint8_t>(kAdd, {bytes, more}), (std::vector<std::uint8_t>{44, 8}));
  EXPECT_EQ(values<std::uint8_t>(kSquaredDifference, {bytes, more}), (std::vector<std::uint8_t>{16, 4}));
  EXPECT_EQ(values<std::uint8_t>(kClip, {bytes}, {{"low", -5.0}, {"high", 1e9}}),
            (std::vector<std::uint8_t>{200, 3}));
}

TEST(Comparisons, SayWhichElementsCompare) {
  const Tensor a = f64({1, 2, 3}), b = f64({2, 2, 2});
  EXPECT_EQ(flags(kEqual, {a, b}), (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(flags(kNotEqual, {a, b}), (std::vector<int>{1, 0, 1}));
  EXPECT_EQ(flags(kLess, {a, b}), (std::vector<int>{1, 0, 0}));
  EXPECT_EQ(flags(kLessEqual, {a, b}), (std::vector<int>{1, 1, 0}));
  EXPECT_EQ(flags(kGreater, {a, b}), (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(flags(kGreaterEqual, {a, b}), (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(flags(kEqual, {bools({0, 1, 1}), bools({0, 0, 1})}), (std::vector<int>{1, 0, 1}));
  EXPECT_EQ(flags(kIsNan, {f64({kNan, kInf, 0})}), (std::vector<int>{1, 0, 0}));
  EXPECT_EQ(flags(kIsFinite, {f64({kNan, kInf, 0})}), (std::vector<int>{0, 0, 1}));
}

TEST(Logic, FollowsItsTruthTables) {
  const Tensor a = bools({0, 0, 1, 1}), b = bools({0, 1, 0, 1});
  EXPECT_EQ(flags(kLogicalAnd, {a, b}), (std::vector<int>{0, 0, 0, 1}));
  EXPECT_EQ(flags(kLogicalOr, {a, b}), (std::vector<int>{0, 1, 1, 1}));
  EXPECT_EQ(flags(kLogicalNot, {a}), (std::vector<int>{1, 1, 0, 0}));
}

TEST(Select, TakesElementsOfEveryDtype) {
  const Tensor cond = bools({1, 0, 1});
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16, DType::kI64, DType::kI32,
                            DType::kU8, DType::kBool}) {
    const Tensor a = as(dtype, f64({1, 1, 0})), b = as(dtype, f64({0}));
    const Tensor y = (*run_op(kSelect, {cond, a, b}, {}))[0];
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(values(kCast, {y}, {{"dtype", DType::kF64}}), (Doubles{1, 0, 0})) << dtype_name(dtype);
  }
}

TEST(Cast, TakesEveryDtypeToEveryOther) {
  const DType all[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16,
                       DType::kI64, DType::kI32, DType::kU8,   DType::kBool};
  for (const DType from : all) {
    for (const DType to : all) {
      const bool is_bool = from == DType::kBool || to == DType::kBool;
      const Tensor x = as(from, f64({0, 1, 100}));
      const Doubles expected{0, 1, is_bool ? 1.0 : 100.0};
      EXPECT_EQ(values(kCast, {as(to, x)}, {{"dtype", DType::kF64}}), expected)
          << dtype_name(from) << " to " << dtype_name(to);
    }
  }
}

TEST(Cast, RoundsToTheNearestEvenSixteenBitFloat) {
  // bf16 has 8 significant bits, f16 has 11: 1 + half a unit is a tie.
  const Tensor x = f64({1 + 0x1p-8, 1 + 3 * 0x1p-8, 1 + 0x1p-8 + 0x1p-20, 3.4e38, 1e39});
  EXPECT_EQ(values(kCast, {as(DType::kBF16, x)}, {{"dtype", DType::kF64}}),
            (Doubles{1, 1 + 0x1p-6, 1 + 0x1p-7, kInf, kInf}));
  const Tensor z = f64({1 + 0x1p-11, 1 + 3 * 0x1p-11, 65519, 65520, 0x1p-24, 0x1p-26});
  EXPECT_EQ(values(kCast, {as(DType::kF16, z)}, {{"dtype", DType::kF64}}),
            (Doubles{1, 1 + 0x1p-9, 65504, kInf, 0x1p-24, 0}));
  // Just above a tie, by less than an f32 can tell: rounding twice would give 1.
  const Tensor above = f64({1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-11 + 0x1p-40, -(1 + 0x1p-8 + 0x1p-40), 1e300});
  EXPECT_EQ(values(kCast, {as(DType::kBF16, above)}, {{"dtype", DType::kF64}}),
            (Doubles{1 + 0x1p-7, 1, -(1 + 0x1p-7), kInf}));
  EXPECT_EQ(values(kCast, {as(DType::kF16, above)}, {{"dtype", DType::kF64}})[1], 1 + 0x1p-10);
  for (const DType half : {DType::kBF16, DType::kF16}) {
    const Tensor odd = as(half, f64({kNan, -kInf}));
    EXPECT_TRUE(std::isnan(values(kCast, {odd}, {{"dtype", DType::kF64}})[0]));
    EXPECT_EQ(values<std::int32_t>(kCast, {odd}, {{"dtype", DType::kI32}}),
              (std::vector<std::int32_t>{0, INT32_MIN}));
  }
}

TEST(Elementwise, SaysWhatIsWrongWithACall) {
  expect_refused(kElu, {f32_type({2})}, {{"alpha", -1.0}},
                 "[op elu] attribute 'alpha': got -1, expected at least 0");
  expect_refused(kClip, {f32_type({2})}, {{"low", 2.0}, {"high", 1.0}},
                 "[op clip] attributes 'low', 'high': got 2 and 1, expected low <= high");
  expect_refused(kClip, {f32_type({2})}, {{"low", kNan}}, "[op clip] attributes 'low', 'high': got nan");
  expect_refused(kSelect, {f32_type({2}), f32_type({2}), f32_type({2})}, {},
                 "[op select] cond: got f32[2], expected bool");
  expect_refused(kSelect, {{DType::kBool, {2}}, f32_type({2}), {DType::kF64, {2}}}, {},
                 "[op select] b: got f64[2], expected f32");
  expect_refused(kSelect, {{DType::kBool, {3}}, f32_type({2}), f32_type({2})}, {},
                 "[op select] cond and the others: [shape] shapes do not broadcast");
  expect_refused(kLess, {{DType::kBool, {2}}, {DType::kBool, {2}}}, {},
                 "[op less] a: got bool[2], expected any dtype but bool");
  // 2^40 by 2^40 elements: each operand is possible, the result is not.
  const std::int64_t big = std::int64_t{1} << 40;
  expect_refused(kAdd, {f32_type({big, 1}), f32_type({1, big})}, {},
                 "[op add] a and b: [shape] too many elements");
}

}  // namespace
}  // namespace trireme::op::testing
