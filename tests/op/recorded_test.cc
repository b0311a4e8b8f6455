// Reference kernels against numbers recorded from PyTorch 2 (f64, one thread). Inputs are formulas, so that
// both sides can make them: values(n, a, b)[i] = a (((37 i + 11) mod 101) / 50 - 1) + b.
#include <gtest/gtest.h>

#include "tests/op/run_op.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {
using Ints = std::vector<std::int64_t>;

std::vector<double> values(std::int64_t n, double a = 1, double b = 0) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < n; ++i)
    v.push_back(a * (static_cast<double>((37 * i + 11) % 101) / 50 - 1) + b);
  return v;
}

Tensor made(const Shape& shape, double a = 1, double b = 0) {
  return Tensor::from<double>(values(shape.num_elems(), a, b), shape);
}

Tensor run1(const OpDef& def, const std::vector<Tensor>& in, const Attrs& attrs = {}) {
  auto out = run_op(def, in, attrs);
  TR_CHECK(out.ok(), "{}", out.status().to_string());
  return (*out)[0];
}

void expect_values(const Tensor& t, const std::vector<double>& expected) {
  ASSERT_LE(expected.size(), t.values<double>().size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(t.values<double>()[i], expected[i], 1e-12) << i;
}

// The whole tensor folded with values(n): one number that a wrong element changes.
double folded(const Tensor& t) {
  const auto w = values(t.shape().num_elems());
  double total = 0;
  for (std::size_t i = 0; i < w.size(); ++i) total += w[i] * t.values<double>()[i];
  return total;
}

TEST(Recorded, Conv2dForwardAndGradients) {
  const Attrs attrs{{"stride_h", 2},   {"stride_w", 1},   {"pad_h", 1}, {"pad_w", 2},
                    {"dilation_h", 1}, {"dilation_w", 2}, {"groups", 2}};
  const Tensor x = made({2, 4, 5, 6}), filter = made({6, 2, 3, 2}, 0.5);
  const Tensor y = run1(kConv2d, {x, filter}, attrs);
  ASSERT_EQ(y.shape(), Shape({2, 6, 3, 8}));
  expect_values(y, {0.2712,  0.0566,  -0.3872, 0.3508,  -0.406, -0.3952, 0.1876,  -0.3546,
                    -0.0252, -0.3032, 0.4218,  -0.6458, 0.2258, 0.3298,  -0.6606, 0.489,
                    -0.2462, 0.0354,  -0.4482, 0.858,   0.0432, -1.3372, 0.4244,  -0.0862});
  EXPECT_NEAR(folded(y), -2.7553439999999987, 1e-11);

  const Tensor dy = made(y.shape(), 0.7);
  Attrs input = attrs, filters = attrs;
  input.set("input_shape", Ints{2, 4, 5, 6});
  filters.set("filter_shape", Ints{6, 2, 3, 2});
  const Tensor dx = run1(kConv2dInputGrad, {filter, dy}, input);
  expect_values(dx, {0.1883,   0.3794,   -0.05166, -0.03024, 0.3164,   -0.11466, -0.20468, -0.51534,
                     -0.02002, 0.17836,  -0.04746, 0.13678,  0.2324,   -0.65114, -0.00756, 0.1694,
                     0.3605,   -0.07056, -0.34272, 0.39298,  -0.12978, -0.15764, -0.14308, 0.02702});
  EXPECT_NEAR(folded(dx), -1.9287408000000004, 1e-11);
  const Tensor df = run1(kConv2dFilterGrad, {x, dy}, filters);
  expect_values(df, {0.62832,  0.12068, -0.90804, 2.53008,  -0.49728, -0.92008, -0.07392, 0.19852,
                     -0.07364, 1.2824,  -1.02032, -0.66304, 0.04592,  -0.43344, -1.414,   -0.88872,
                     0.30604,  0.02464, -1.2222,  -0.97804, -1.1032,  0.13972,  -0.72632, -0.2842});
  EXPECT_NEAR(folded(df), -3.857481600000001, 1e-11);
}

TEST(Recorded, MaxPool2dSendsTiesToTheFirstMaximum) {
  std::vector<double> v;
  for (int i = 0; i < 60; ++i) v.push_back(7 * i % 5);
  const Tensor x = Tensor::from<double>(v, {1, 2, 5, 6});
  const Attrs attrs{{"window_h", 3}, {"window_w", 2}, {"stride_h", 2},
                    {"stride_w", 2}, {"pad_h", 1},    {"pad_w", 1}};
  const Tensor y = run1(kMaxPool2d, {x}, attrs);
  ASSERT_EQ(y.shape(), Shape({1, 2, 3, 4}));
  expect_values(y, {2.0, 4.0, 3.0, 2.0, 4.0, 4.0, 4.0, 4.0, 3.0, 3.0, 4.0, 3.0,
                    2.0, 4.0, 3.0, 2.0, 4.0, 4.0, 4.0, 4.0, 3.0, 3.0, 4.0, 3.0});
  expect_values(run1(kMaxPool2dGrad, {x, y, made(y.shape())}, attrs),
                {0.0, 0.0, -0.04, 0.0, 0.7,   0.0, -0.78, 0.9,   0.0, 0.0,   0.0, -0.58, 0.16, 0.0, 0.0,
                 0.0, 0.0, 0.36,  0.0, -0.18, 0.0, 0.0,   0.18,  0.0, -0.92, 0.0, 0.0,   0.0,  0.0, -0.72,
                 0.0, 0.0, 0.76,  0.0, -0.52, 0.0, 0.02,  -0.32, 0.0, 0.0,   0.0, 0.22,  0.96, 0.0, 0.0,
                 0.0, 0.0, -0.86, 0.0, 0.62,  0.0, 0.0,   -0.24, 0.0, -0.12, 0.0, 0.0,   0.0,  0.0, 0.08});
}

TEST(Recorded, SoftmaxCrossEntropyForwardAndGradient) {
  const Tensor logits = made({4, 5}, 3);
  const Tensor labels = Tensor::from<std::int64_t>(Ints{0, 3, 4, 1}, {4});
  const Tensor weights = Tensor::from<float>(std::vector<float>{1, 0.5F, 0, 2}, {4});
  expect_values(run1(kSoftmaxCrossEntropy, {logits, labels, weights}),
                {4.732518369521, 2.8466695998086, 0.0, 0.5737459379293});
  expect_values(run1(kSoftmaxCrossEntropyGrad, {logits, labels, weights, made({4}, 1, 2)}),
                {-1.209258789758,
                 0.098897876598,
                 0.9105854717712,
                 0.0195717611209,
                 0.180203680268,
                 0.7760472224834,
                 0.016680049625,
                 0.1535787357569,
                 -0.9766990398786,
                 0.0303930320132,
                 0.0,
                 0.0,
                 0.0,
                 0.0,
                 0.0,
                 0.2315246534384,
                 -0.7082759121838,
                 0.0458184277212,
                 0.421865423784,
                 0.0090674072401});
}

void expect_three_steps(bool nesterov, const std::vector<double>& weights,
                        const std::vector<double>& velocity) {
  const Tensor w = made({5}), v = Tensor::from<double>(std::vector<double>(5, 0.0), {5});
  const Tensor lr = Tensor::from<double>(std::vector<double>{0.1}, {});
  for (int step = 0; step < 3; ++step) {
    run1(kApplyMomentum, {w, v, made({5}, 0.5, 0.1 * step), lr},
         {{"momentum", 0.9}, {"weight_decay", 0.01}, {"nesterov", nesterov}});
  }
  expect_values(w, weights);
  expect_values(v, velocity);
}

TEST(Recorded, MomentumFollowsPyTorch) {
  expect_three_steps(false, {-0.59601510422, -0.06755538996, 0.4609043243, -0.45318815442, 0.07527155984},
                     {-0.7866267578, 0.2346934996, 1.256013757, -0.5105942558, 0.5107260016});
}

TEST(Recorded, NesterovFollowsPyTorch) {
  expect_three_steps(true,
                     {-0.525427667389, -0.0886722983276, 0.3480830707337, -0.4073856757508, 0.0293696933106},
                     {-0.785715340058, 0.234654854356, 1.25502504877, -0.509939611838, 0.510430582576});
}

}  // namespace
}  // namespace trireme::op::testing
