// Reference kernels against naive formulas, and their behaviour at the edges.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/op/run_op.h"
#include "trireme/base/rng.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {
using Ints = std::vector<std::int64_t>;
constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

Tensor f64(const std::vector<double>& v, const Shape& shape) { return Tensor::from<double>(v, shape); }
Tensor i64(const Ints& v, const Shape& shape) { return Tensor::from<std::int64_t>(v, shape); }

Tensor random(const Shape& shape, std::uint64_t key) {
  Philox rng(key);
  std::vector<double> v;
  for (std::int64_t i = 0; i < shape.num_elems(); ++i) v.push_back(2 * rng.next_double() - 1);
  return f64(v, shape);
}

template <typename T = double>
std::vector<T> run(const OpDef& def, const std::vector<Tensor>& in, const Attrs& attrs = {}) {
  auto out = run_op(def, in, attrs);
  TR_CHECK(out.ok(), "{}", out.status().to_string());
  const auto v = (*out)[0].values<T>();
  return {v.begin(), v.end()};
}

void expect_close(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
}

TEST(Elementwise, ComputesItsFormula) {
  const std::vector<double> x{0.5, 1.0, 2.0};
  const auto by = [&](double (*f)(double)) { return std::vector<double>{f(x[0]), f(x[1]), f(x[2])}; };
  const Tensor t = f64(x, {3});
  expect_close(run(kExp, {t}), by([](double v) { return std::exp(v); }));
  expect_close(run(kLog, {t}), by([](double v) { return std::log(v); }));
  expect_close(run(kSqrt, {t}), by([](double v) { return std::sqrt(v); }));
  expect_close(run(kTanh, {t}), by([](double v) { return std::tanh(v); }));
  expect_close(run(kSigmoid, {t}), by([](double v) { return 1 / (1 + std::exp(-v)); }));
  EXPECT_EQ(run(kSquare, {t}), (std::vector<double>{0.25, 1, 4}));
  EXPECT_EQ(run(kNeg, {t}), (std::vector<double>{-0.5, -1, -2}));
  EXPECT_EQ(run(kScale, {t}, {{"factor", 4.0}}), (std::vector<double>{2, 4, 8}));
  EXPECT_EQ(run(kRelu, {f64({-1, 0, 2}, {3})}), (std::vector<double>{0, 0, 2}));
  EXPECT_EQ(run(kReluGrad, {f64({5, 6, 7}, {3}), f64({0, 1, -1}, {3})}), (std::vector<double>{0, 6, 0}));
  EXPECT_TRUE(std::isnan(run(kRelu, {f64({kNan}, {1})})[0]));
}

TEST(Elementwise, BroadcastsLikeNumPy) {
  const Tensor column = f64({1, 2}, {2, 1}), row = f64({10, 20, 30}, {3});
  EXPECT_EQ(run(kAdd, {column, row}), (std::vector<double>{11, 21, 31, 12, 22, 32}));
  EXPECT_EQ(run(kSub, {column, row}), (std::vector<double>{-9, -19, -29, -8, -18, -28}));
  EXPECT_EQ(run(kMul, {column, row}), (std::vector<double>{10, 20, 30, 20, 40, 60}));
  EXPECT_EQ(run(kDiv, {row, column}), (std::vector<double>{10, 20, 30, 5, 10, 15}));
}

TEST(Elementwise, IntegersWrapAround) {
  const std::int64_t top = std::numeric_limits<std::int64_t>::max(),
                     bottom = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(run<std::int64_t>(kAdd, {i64({top}, {1}), i64({1}, {1})}), Ints{bottom});
  EXPECT_EQ(run<std::int64_t>(kNeg, {i64({bottom}, {1})}), Ints{bottom});
}

TEST(Cast, TruncatesSaturatesAndTakesNanToZero) {
  const Tensor x = f64({-1.9, 1.9, 300, -kInf, kNan, 1e30}, {6});
  const auto as_i32 = run<std::int32_t>(kCast, {x}, {{"dtype", DType::kI32}});
  EXPECT_EQ(as_i32, (std::vector<std::int32_t>{-1, 1, 300, INT32_MIN, 0, INT32_MAX}));
  const auto as_u8 = run<std::uint8_t>(kCast, {x}, {{"dtype", DType::kU8}});
  EXPECT_EQ(as_u8, (std::vector<std::uint8_t>{0, 1, 255, 0, 0, 255}));
  EXPECT_EQ(run<std::int64_t>(kCast, {x}, {{"dtype", DType::kI64}})[5], INT64_MAX);
  const auto flags = run_op(kCast, {f64({0, 0.5, kNan}, {3})}, {{"dtype", DType::kBool}});
  EXPECT_EQ((*flags)[0].data<bool>()[0], false);
  EXPECT_EQ((*flags)[0].data<bool>()[1], true);
  EXPECT_EQ((*flags)[0].data<bool>()[2], true);
}

TEST(Reduce, SumsInIndexOrderInTheElementType) {
  // 2^24 + 1 + 1 in f32, left to right, loses both ones; any other order does not.
  const std::vector<float> v{16777216.0F, 1, 1};
  EXPECT_EQ(run<float>(kSum, {Tensor::from<float>(v, {3})})[0], 16777216.0F);
  const std::vector<float> w{1, 1, 16777216.0F};
  EXPECT_EQ(run<float>(kSum, {Tensor::from<float>(w, {3})})[0], 16777218.0F);
}

TEST(Reduce, FoldsTheRightDimensions) {
  const Tensor x = f64({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2});
  EXPECT_EQ(run(kSum, {x}), std::vector<double>{36});
  EXPECT_EQ(run(kSum, {x}, {{"axes", Ints{1}}}), (std::vector<double>{4, 6, 12, 14}));
  EXPECT_EQ(run(kMean, {x}, {{"axes", Ints{0, 2}}}), (std::vector<double>{3.5, 5.5}));
  EXPECT_EQ(run(kMax, {x}, {{"axes", Ints{-1}}}), (std::vector<double>{2, 4, 6, 8}));
  EXPECT_EQ(run(kSum, {f64({}, {0, 2})}, {{"axes", Ints{0}}}), (std::vector<double>{0, 0}));
  EXPECT_TRUE(std::isnan(run(kMean, {f64({}, {0})})[0]));
}

TEST(Reduce, NanWinsAndTheFirstOfTiesIsTheArgmax) {
  EXPECT_TRUE(std::isnan(run(kMax, {f64({1, kNan, 3}, {3})})[0]));
  EXPECT_EQ(run(kMax, {f64({-kInf, -kInf}, {2})})[0], -kInf);
  EXPECT_EQ(run<std::int64_t>(kArgmax, {f64({1, 3, 3, kNan, 5, kNan}, {2, 3})}), (Ints{1, 0}));
  EXPECT_EQ(run<std::int64_t>(kArgmax, {f64({1, 4, 3, 2}, {2, 2})}, {{"axis", 0}}), (Ints{1, 0}));
}

TEST(Matmul, AddsProducts) {
  const Tensor a = random({3, 4}, 1), b = random({4, 5}, 2);
  std::vector<double> expected(15, 0.0);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      for (std::size_t k = 0; k < 4; ++k)
        expected[i * 5 + j] += a.values<double>()[i * 4 + k] * b.values<double>()[k * 5 + j];
    }
  }
  expect_close(run(kMatmul, {a, b}), expected);
  const std::array swap{1, 0};
  const Tensor at = (*run_op(kTranspose, {a}, {}))[0], bt = (*run_op(kTranspose, {b}, {}))[0];
  expect_close(run(kMatmul, {at, bt}, {{"transpose_a", true}, {"transpose_b", true}}), expected);
  expect_close(run(kMatmul, {at.transpose(swap), b}), expected);
}

struct Conv {
  std::int64_t n, c, h, w, o, kh, kw, sh, sw, ph, pw, dh, dw, groups;
};

std::vector<double> naive_conv(const Tensor& x, const Tensor& f, const Conv& g) {
  const std::int64_t oh = (g.h + 2 * g.ph - g.dh * (g.kh - 1) - 1) / g.sh + 1;
  const std::int64_t ow = (g.w + 2 * g.pw - g.dw * (g.kw - 1) - 1) / g.sw + 1, cg = g.c / g.groups;
  std::vector<double> y(static_cast<std::size_t>(g.n * g.o * oh * ow), 0.0);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(y.size()); ++i) {
    const std::int64_t col = i % ow, row = i / ow % oh, o = i / ow / oh % g.o, n = i / ow / oh / g.o;
    for (std::int64_t t = 0; t < cg * g.kh * g.kw; ++t) {
      const std::int64_t kw = t % g.kw, kh = t / g.kw % g.kh, c = t / g.kw / g.kh;
      const std::int64_t ih = row * g.sh - g.ph + kh * g.dh, iw = col * g.sw - g.pw + kw * g.dw;
      if (ih < 0 || ih >= g.h || iw < 0 || iw >= g.w) continue;
      const std::int64_t channel = o / (g.o / g.groups) * cg + c;
      y[static_cast<std::size_t>(i)] +=
          x.values<double>()[static_cast<std::size_t>(((n * g.c + channel) * g.h + ih) * g.w + iw)] *
          f.values<double>()[static_cast<std::size_t>(((o * cg + c) * g.kh + kh) * g.kw + kw)];
    }
  }
  return y;
}

TEST(Conv2d, AgreesWithTheFormulaForManyGeometries) {
  Philox rng(7);
  const auto pick = [&](std::uint32_t low, std::uint32_t high) {
    return std::int64_t{low + rng.next_below(high - low + 1)};
  };
  int tried = 0;
  for (int round = 0; round < 200; ++round) {
    const std::int64_t groups = pick(1, 2);
    const Conv g{pick(1, 2), groups * pick(1, 2), pick(1, 7), pick(1, 7), groups * pick(1, 3),
                 pick(1, 3), pick(1, 3),          pick(1, 3), pick(1, 3), pick(0, 2),
                 pick(0, 2), pick(1, 2),          pick(1, 2), groups};
    const Attrs attrs{{"stride_h", g.sh},   {"stride_w", g.sw},   {"pad_h", g.ph},   {"pad_w", g.pw},
                      {"dilation_h", g.dh}, {"dilation_w", g.dw}, {"groups", groups}};
    const Tensor x = random({g.n, g.c, g.h, g.w}, 1), f = random({g.o, g.c / groups, g.kh, g.kw}, 2);
    const auto y = run_op(kConv2d, {x, f}, attrs);
    if (!y.ok()) {
      EXPECT_TRUE(g.h + 2 * g.ph < g.dh * (g.kh - 1) + 1 || g.w + 2 * g.pw < g.dw * (g.kw - 1) + 1)
          << y.status().to_string();
      continue;
    }
    ++tried;
    const auto v = (*y)[0].values<double>();
    expect_close({v.begin(), v.end()}, naive_conv(x, f, g));
  }
  EXPECT_GT(tried, 150);
}

TEST(MaxPool2d, NanWins) {
  const Attrs attrs{{"window_h", 1}, {"window_w", 2}, {"stride_h", 1}, {"stride_w", 2}};
  const auto y = run(kMaxPool2d, {f64({1, kNan, kNan, 1, 2, 3}, {1, 1, 1, 6})}, attrs);
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
  EXPECT_EQ(y[2], 3);
}

TEST(Bias, GoesAlongDimensionOne) {
  const Tensor x = f64({0, 0, 0, 0, 0, 0, 0, 0}, {2, 2, 2});
  EXPECT_EQ(run(kBiasAdd, {x, f64({1, 2}, {2})}), (std::vector<double>{1, 1, 2, 2, 1, 1, 2, 2}));
  EXPECT_EQ(run(kBiasGrad, {f64({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2})}), (std::vector<double>{14, 22}));
}

TEST(Softmax, SumsToOneAndSurvivesLargeValues) {
  const auto y = run(kSoftmax, {f64({1000, 1001, -1000, 0}, {2, 2})});
  EXPECT_NEAR(y[0], 1 / (1 + std::exp(1.0)), 1e-15);
  EXPECT_NEAR(y[0] + y[1], 1, 1e-15);
  EXPECT_EQ(y[3], 1);
}

TEST(SoftmaxCrossEntropy, WeightZeroSwitchesASampleOffAndABadLabelIsNan) {
  const Tensor logits = f64({1, 2, kNan, kInf, 0, 0}, {3, 2});
  const Tensor labels = i64({2, -7, 1}, {3});
  const Tensor weights = Tensor::from<float>(std::vector<float>{1, 0, 1}, {3});
  const auto losses = run(kSoftmaxCrossEntropy, {logits, labels, weights});
  EXPECT_TRUE(std::isnan(losses[0]));
  EXPECT_EQ(losses[1], 0);
  EXPECT_NEAR(losses[2], std::log(2.0), 1e-15);
  const auto d = run(kSoftmaxCrossEntropyGrad, {logits, labels, weights, f64({1, 1, 1}, {3})});
  EXPECT_TRUE(std::isnan(d[0]) && std::isnan(d[1]));
  EXPECT_EQ(d[2], 0);
  EXPECT_EQ(d[3], 0);
  expect_close({d[4], d[5]}, {0.5, -0.5});
}

TEST(Correct, CountsWeightedSamplesOnly) {
  const Tensor logits = f64({1, 2, 2, 1, 1, 1, 0, 5}, {4, 2});
  const Tensor weights = Tensor::from<float>(std::vector<float>{1, 1, 1, 0}, {4});
  EXPECT_EQ(run<float>(kCorrect, {logits, i64({1, 1, 0, 1}, {4}), weights}),
            (std::vector<float>{1, 0, 1, 0}));
}

TEST(Dropout, FollowsItsFormulaAndItsRate) {
  const std::int64_t n = 8, size = 1000;
  Ints ids;
  for (std::int64_t i = 0; i < n; ++i) ids.push_back((i << 33) + 5);
  const auto y = run(kDropout,
                     {f64(std::vector<double>(static_cast<std::size_t>(n * size), 3.0), {n, size}),
                      i64({42}, {}), i64({7}, {}), i64(ids, {n})},
                     {{"rate", 0.25}, {"stream", 9}});
  const std::uint64_t key = mix_key(42, 7, 9);
  std::int64_t kept = 0;
  for (std::int64_t s = 0; s < n; ++s) {
    for (std::int64_t j = 0; j < size; ++j) {
      const auto id = static_cast<std::uint64_t>(ids[static_cast<std::size_t>(s)]);
      const auto words =
          philox4x32(key, {static_cast<std::uint32_t>(j / 4), 0, static_cast<std::uint32_t>(id),
                           static_cast<std::uint32_t>(id >> 32)});
      const bool keep = to_uniform(words[static_cast<std::size_t>(j % 4)]) >= 0.25F;
      kept += keep;
      ASSERT_EQ(y[static_cast<std::size_t>(s * size + j)], keep ? 4.0 : 0.0) << s << " " << j;
    }
  }
  EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(n * size), 0.75, 0.02);
}

TEST(Update, WritesInPlaceAndYieldsInputZero) {
  const Tensor w = f64({1, 2}, {2}), g = f64({10, 20}, {2}), lr = f64({0.1}, {});
  const auto out = run_op(kApplySgd, {w, g, lr}, {{"weight_decay", 0.5}});
  EXPECT_EQ((*out)[0].raw(), w.raw());
  expect_close({w.values<double>()[0], w.values<double>()[1]}, {1 - 0.1 * 10.5, 2 - 0.1 * 21});
  run(kAssign, {w, g});
  run(kAssignAdd, {w, g});
  EXPECT_EQ(w.values<double>()[1], 40);
}

}  // namespace
}  // namespace trireme::op::testing
