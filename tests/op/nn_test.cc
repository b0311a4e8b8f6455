// Pooling, normalisation and losses: small tables from the definitions, refusals.
#include <cmath>

#include "tests/op/values.h"
#include "trireme/tensor/half.h"

namespace trireme::op::testing {
namespace {

Attrs pool(std::int64_t window, std::int64_t stride, std::int64_t pad) {
  return {{"window_h", std::int64_t{1}},
          {"window_w", window},
          {"stride_h", std::int64_t{1}},
          {"stride_w", stride},
          {"pad_w", pad}};
}
Tensor weights(const std::vector<float>& v) {
  return Tensor::from<float>(v, {static_cast<std::int64_t>(v.size())});
}

TEST(AvgPool2d, CountsPaddingOrNot) {
  const Tensor x = f64({3, 6, 9, 12}, {1, 1, 1, 4});
  EXPECT_EQ(values(kAvgPool2d, {x}, pool(2, 2, 0)), (Doubles{4.5, 10.5}));
  Attrs padded = pool(3, 2, 1);
  EXPECT_EQ(values(kAvgPool2d, {x}, padded), (Doubles{3, 9}));
  padded.set("count_include_pad", false);
  EXPECT_EQ(values(kAvgPool2d, {x}, padded), (Doubles{4.5, 9}));
}

TEST(AvgPool2d, SpreadsItsGradientEvenly) {
  Attrs attrs = pool(2, 1, 0);
  attrs.set("input_shape", Ints{1, 1, 1, 3});
  EXPECT_EQ(values(kAvgPool2dGrad, {f64({2, 10}, {1, 1, 1, 2})}, attrs), (Doubles{1, 6, 5}));
}

TEST(Pooling, RefusesWindowsThatDoNotFit) {
  const TensorType x = f32_type({1, 1, 1, 4});
  for (const OpDef* def : {&kMaxPool2d, &kAvgPool2d, &kL2Pool2d}) {
    const std::string op = fmt::format("[op {}] ", def->name);
    expect_refused(*def, {x}, pool(5, 1, 0),
                   op + "width: got a window of 5, expected to fit into 4 with padding 0");
    expect_refused(*def, {x}, pool(2, 1, 2),
                   op + "width: got padding 2 for a window of 2, expected at most half");
    expect_refused(*def, {x}, pool(2, 0, 0), op + "attribute 'stride_w': got 0, expected at least 1");
    expect_refused(*def, {f32_type({4})}, pool(2, 1, 0), op + "x: got f32[4], expected 4 dimensions");
    expect_refused(*def, {f32_type({1, 1, 0, 4})}, pool(2, 1, 0), op + "height: got a window of 1");
  }
}

TEST(MaxPool2d, GradientOfItsGradientReadsTheMaxima) {
  const Tensor x = f64({1, 5, 2, 2}, {1, 1, 1, 4}), y = f64({5, 2}, {1, 1, 1, 2});
  const Tensor u = f64({10, 20, 30, 40}, {1, 1, 1, 4});
  EXPECT_EQ(values(kMaxPool2dGradGrad, {x, y, u}, pool(2, 2, 0)), (Doubles{20, 30}));
}

TEST(MaxPool2d, AddsSixteenBitGradientsInF32) {
  // One element is the maximum of three windows; 256 + 1 + 1 in bf16 would stay at 256.
  const Tensor x = as(DType::kBF16, f64({0, 0, 9, 0, 0}, {1, 1, 1, 5}));
  const Tensor dy = as(DType::kBF16, f64({256, 1, 1}, {1, 1, 1, 3}));
  const auto dx = values<BFloat16>(kMaxPool2dGrad, {x, dy, dy}, pool(3, 1, 0));
  EXPECT_EQ(static_cast<float>(dx[2]), 258.0F);
}

TEST(L2Pool2d, IsTheRootOfTheSumOfSquares) {
  Attrs attrs = pool(2, 2, 0);
  attrs.set("eps", 0.0);
  EXPECT_EQ(values(kL2Pool2d, {f64({3, 4, -5, 12}, {1, 1, 1, 4})}, attrs), (Doubles{5, 13}));
}

TEST(BatchNorm, UsesTheBiasedVarianceOfEachChannel) {
  const std::vector<Tensor> in{f64({1, 10, 3, 30}, {2, 2}), f64({2, 1}), f64({0, 5})};
  const Attrs attrs{{"eps", 3.0}};
  expect_near(values(kBatchNorm, in, attrs), {-1, 5 - 10 / std::sqrt(103), 1, 5 + 10 / std::sqrt(103)});
  EXPECT_EQ(values(kBatchNorm, in, attrs, 1), (Doubles{2, 20}));
  EXPECT_EQ(values(kBatchNorm, in, attrs, 2), (Doubles{1, 100}));
  const Tensor mean = f64({2, 20}), var = f64({1, 100});
  expect_near(values(kBatchNormInference, {in[0], in[1], in[2], mean, var}, attrs),
              values(kBatchNorm, in, attrs));
}

TEST(BatchNorm, OfNothingOrOneValueIsFinite) {
  const Attrs attrs{{"eps", 1.0}};
  EXPECT_EQ(values(kBatchNorm, {f64({}, {0, 1}), f64({1}), f64({1})}, attrs, 1), Doubles{0});
  EXPECT_EQ(values(kBatchNorm, {f64({7}, {1, 1}), f64({3}), f64({4})}, attrs), Doubles{4});
}

TEST(BatchNorm, RefusesParametersOfAnotherLength) {
  expect_refused(kBatchNorm, {f32_type({4, 3}), f32_type({4}), f32_type({3})}, {},
                 "[op batch_norm] scale: got f32[4], expected f32[3]");
  expect_refused(kBatchNorm, {f32_type({4, 3}), f32_type({3}), f32_type({3})}, {{"eps", -1.0}},
                 "[op batch_norm] attribute 'eps': got -1, expected a finite value of at least 0");
  expect_refused(kLayerNorm, {f32_type({4, 3}), f32_type({3}), f32_type({3})}, {{"num_axes", 3}},
                 "[op layer_norm] attribute 'num_axes': got 3 for f32[4, 3], expected 1 to 2");
}

TEST(RunningStatistics, FollowPyTorch) {
  const Tensor mean = f64({10, 0});
  EXPECT_EQ(values(kApplyRunningAverage, {mean, f64({20, 4})}, {{"momentum", 0.25}}), (Doubles{12.5, 1}));
  const Tensor var = f64({8});
  EXPECT_EQ(values(kApplyRunningVariance, {var, f64({3}), f64({4}, {})}, {{"momentum", 0.5}}), Doubles{6});
  EXPECT_EQ(values(kApplyRunningVariance, {f64({8}), f64({4}), f64({1}, {})}, {{"momentum", 0.5}}),
            Doubles{6});
}

TEST(LayerNorm, NormalisesEachRow) {
  const std::vector<Tensor> in{f64({1, 3, 10, 30}, {2, 2}), f64({2, 1}), f64({0, 5})};
  const Attrs attrs{{"eps", 3.0}};
  expect_near(values(kLayerNorm, in, attrs), {-1, 5.5, -20 / std::sqrt(103), 5 + 10 / std::sqrt(103)});
  EXPECT_EQ(values(kLayerNorm, in, attrs, 1), (Doubles{2, 20}));
  EXPECT_EQ(values(kLayerNorm, in, attrs, 2), (Doubles{1, 100}));
}

TEST(LocalResponseNorm, AveragesSquaresOverNeighbouringChannels) {
  const Tensor x = f64({1, 2, 3, 4}, {1, 4});
  const Attrs attrs{{"size", 2}, {"alpha", 2.0}, {"beta", 1.0}, {"k", 1.0}};
  EXPECT_EQ(values(kWindowSum, {x}, {{"axis", 1}, {"before", 1}, {"after", 0}}), (Doubles{1, 3, 5, 7}));
  expect_near(values(kLocalResponseNorm, {x}, attrs), {1.0 / 2, 2.0 / 6, 3.0 / 14, 4.0 / 26});
  expect_refused(kLocalResponseNorm, {x.type()}, {{"size", 0}},
                 "[op local_response_norm] attribute 'size': got 0");
}

TEST(GaussianBlur2d, HasWeightsThatSumToOneInside) {
  const Attrs attrs{{"window", 3}, {"sigma", 1.0}};
  const double e = std::exp(-0.5), side = e / (1 + 2 * e), middle = 1 / (1 + 2 * e);
  const Tensor dot = f64({0, 0, 0, 0, 1, 0, 0, 0, 0}, {1, 1, 3, 3});
  expect_near(values(kGaussianBlur2d, {dot}, attrs),
              {side * side, side * middle, side * side, side * middle, middle * middle, side * middle,
               side * side, side * middle, side * side});
  expect_refused(kGaussianBlur2d, {dot.type()}, {{"window", 4}},
                 "[op gaussian_blur2d] attribute 'window': got 4, expected an odd number");
}

TEST(LocalContrastNorm, SubtractsAndDividesOverAllChannels) {
  // One pixel: B averages the channels and weighs them by the middle of the window, which is all of it.
  const Tensor x = f64({1, 5}, {1, 2, 1, 1});
  const Attrs attrs{{"window", 1}, {"sigma", 1.0}};
  expect_near(values(kLocalContrastNorm, {x}, attrs), {-1, 1});
  Attrs high = attrs;
  high.set("threshold", 4.0);
  expect_near(values(kLocalContrastNorm, {x}, high), {-0.5, 0.5});
  EXPECT_EQ(values(kLocalContrastNorm, {f64({0, 0}, {1, 2, 1, 1})}, attrs), (Doubles{0, 0}));
}

TEST(Softmax, GoesAlongItsAxis) {
  const Tensor x = f64({0, 1, std::log(3.0), 1}, {2, 2});
  expect_near(values(kSoftmax, {x}, {{"axis", 0}}), {0.25, 0.5, 0.75, 0.5});
  expect_near(values(kLogSoftmax, {x}, {{"axis", 0}}),
              {std::log(0.25), std::log(0.5), std::log(0.75), std::log(0.5)});
  expect_near(values(kLogSoftmax, {f64({1000, 1000})}), {-std::log(2.0), -std::log(2.0)});
  expect_refused(kSoftmax, {x.type()}, {{"axis", 2}}, "[op softmax] attribute 'axis': got 2 for f64[2, 2]");
}

TEST(SquaredError, AddsPerSampleAndSkipsWeightZero) {
  const Tensor p = f64({1, 2, kNan, kInf, 5, 5}, {3, 2}), t = f64({0, 4, 0, 0, 5, 8}, {3, 2});
  EXPECT_EQ(values(kSquaredError, {p, t, weights({1, 0, 0.5})}), (Doubles{5, 0, 4.5}));
  EXPECT_EQ(values(kSquaredErrorGrad, {p, t, weights({1, 0, 0.5}), f64({1, 1, 2})}),
            (Doubles{2, -4, 0, 0, 0, -6}));
  expect_refused(kSquaredError, {p.type(), f32_type({3, 2}), {DType::kF32, {3}}}, {},
                 "[op squared_error] target: got f32[3, 2], expected f64[3, 2]");
}

}  // namespace
}  // namespace trireme::op::testing
