// Random ops: golden values, so that bits never change, and statistics with fixed seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "tests/op/run_op.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {
using Ints = std::vector<std::int64_t>;

Tensor i64(const Ints& v, const Shape& shape) { return Tensor::from<std::int64_t>(v, shape); }

template <typename T>
std::vector<T> run(const OpDef& def, const std::vector<Tensor>& in, const Attrs& attrs) {
  auto out = run_op(def, in, attrs);
  TR_CHECK(out.ok(), "{}", out.status().to_string());
  const auto v = (*out)[0].values<T>();
  return {v.begin(), v.end()};
}

// Numbers of samples `ids` for key 1, step 2, stream 3.
std::vector<double> numbers(const OpDef& def, const Ints& ids, std::int64_t size, Attrs attrs = {}) {
  attrs.set("stream", std::int64_t{3});
  attrs.set("dtype", DType::kF64);
  attrs.set("shape", Ints{size});
  const auto n = static_cast<std::int64_t>(ids.size());
  return run<double>(def, {i64({1}, {}), i64({2}, {}), i64(ids, {n})}, attrs);
}
Ints first_ids(std::int64_t n) {
  Ints ids(static_cast<std::size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

// Made by an independent implementation of Philox4x32-10 and of the layouts in random/random.h.
constexpr std::int64_t kFarId = (std::int64_t{1} << 33) + 1;

TEST(Uniform, HasGoldenBits) {
  const std::vector<double> golden{0x1.9fcf06p-1, 0x1.96db16p-1, 0x1.f0a9b0p-3, 0x1.e0c948p-3,
                                   0x1.0649f0p-3, 0x1.bfa44cp-2, 0x1.fddf50p-1, 0x1.312c34p-1,
                                   0x1.fe8c58p-3, 0x1.2d3e92p-1, 0x1.f126f4p-1, 0x1.5ded80p-7};
  EXPECT_EQ(numbers(kUniform, {5, kFarId}, 6), golden);
  EXPECT_EQ(numbers(kUniform, {kFarId}, 6), std::vector<double>(golden.begin() + 6, golden.end()));
}

TEST(Normal, HasGoldenValues) {
  const std::vector<double> golden{0.17858606888855152,  -0.6199238826993707,  0.16094846410263228,
                                   1.675562806359752,    -1.8713624127074238,  0.7799667259967986,
                                   -0.07514304566063346, -0.05178845517660645, -1.416421053077504,
                                   -0.8786461046600853,  0.2420584425098121,   0.016266056161274613};
  const auto got = numbers(kNormal, {5, kFarId}, 6);
  for (std::size_t i = 0; i < golden.size(); ++i) EXPECT_NEAR(got[i], golden[i], 1e-14) << i;
}

Ints permutation(std::int64_t n, std::int64_t step) {
  return run<std::int64_t>(kPermutation, {i64({1}, {}), i64({step}, {})},
                           {{"n", n}, {"stream", std::int64_t{3}}});
}

TEST(Permutation, HasGoldenOrder) { EXPECT_EQ(permutation(10, 2), (Ints{2, 4, 3, 9, 7, 0, 6, 1, 8, 5})); }

// The statistic of Pearson's test for equal frequencies.
double chi_square(const std::vector<double>& counts) {
  const double expected =
      std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
  double total = 0;
  for (const double c : counts) total += (c - expected) * (c - expected) / expected;
  return total;
}

TEST(Uniform, FillsItsRangeEvenly) {
  const auto u = numbers(kUniform, first_ids(100), 1000, {{"low", -1.0}, {"high", 3.0}});
  std::vector<double> bins(100);
  for (const double v : u) {
    ASSERT_TRUE(v >= -1 && v < 3) << v;
    ++bins[static_cast<std::size_t>((v + 1) * 25)];
  }
  EXPECT_LT(chi_square(bins), 148.2);  // 99 degrees of freedom: 1 in 1000 lies above
  EXPECT_NEAR(std::accumulate(u.begin(), u.end(), 0.0) / 1e5, 1, 0.015);  // 4 standard errors
}

TEST(Normal, HasItsMomentsAndItsShape) {
  const auto z = numbers(kNormal, first_ids(100), 1000, {{"mean", 2.0}, {"std", 0.5}});
  double mean = 0, square = 0, fourth = 0;
  std::vector<double> bins(50);
  for (const double v : z) {
    const double d = (v - 2) / 0.5;
    mean += d / 1e5;
    square += d * d / 1e5;
    fourth += d * d * d * d / 1e5;
    // The distribution function turns normal numbers into uniform ones.
    ++bins[static_cast<std::size_t>(std::erfc(-d / std::sqrt(2)) * 25)];
  }
  EXPECT_NEAR(mean, 0, 0.013);
  EXPECT_NEAR(square, 1, 0.018);
  EXPECT_NEAR(fourth, 3, 0.13);
  EXPECT_LT(chi_square(bins), 85.4);  // 49 degrees of freedom: 1 in 1000 lies above
}

TEST(Normal, NeighboursAreIndependent) {
  const auto z = numbers(kNormal, first_ids(100), 1000);
  double lag = 0;
  for (std::size_t i = 0; i + 1 < z.size(); ++i) lag += z[i] * z[i + 1] / 1e5;
  EXPECT_NEAR(lag, 0, 0.013);
}

TEST(Bernoulli, FollowsItsProbability) {
  const auto ones = [](double p) {
    const auto b = numbers(kBernoulli, first_ids(100), 1000, {{"probability", p}});
    for (const double v : b) EXPECT_TRUE(v == 0 || v == 1);
    return std::accumulate(b.begin(), b.end(), 0.0) / 1e5;
  };
  EXPECT_NEAR(ones(0.3), 0.3, 0.006);
  EXPECT_EQ(ones(0), 0);
  EXPECT_EQ(ones(1), 1);
}

TEST(Permutation, EveryOrderIsEquallyLikely) {
  std::map<Ints, double> orders;
  for (std::int64_t step = 0; step < 24000; ++step) ++orders[permutation(4, step)];
  ASSERT_EQ(orders.size(), 24U);
  std::vector<double> counts;
  for (const auto& [order, count] : orders) {
    Ints sorted = order;
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(sorted, first_ids(4));
    counts.push_back(count);
  }
  EXPECT_LT(chi_square(counts), 49.7);  // 23 degrees of freedom: 1 in 1000 lies above
}

TEST(Streams, DifferByKeyStepAndStream) {
  const auto draw = [](std::int64_t key, std::int64_t step, std::int64_t stream) {
    return run<float>(kUniform, {i64({key}, {}), i64({step}, {}), i64({7}, {1})},
                      {{"stream", stream}, {"shape", Ints{4}}});
  };
  const auto base = draw(1, 2, 3);
  EXPECT_EQ(draw(1, 2, 3), base);
  EXPECT_NE(draw(2, 2, 3), base);
  EXPECT_NE(draw(1, 3, 3), base);
  EXPECT_NE(draw(1, 2, 4), base);
}

TEST(Shuffle, MovesRowsByThePermutationAndBack) {
  const std::int64_t n = 10;
  std::vector<float> x;
  for (std::int64_t i = 0; i < n; ++i) x.insert(x.end(), {static_cast<float>(i), static_cast<float>(-i)});
  const Tensor key = i64({1}, {}), step = i64({2}, {});
  const auto y =
      run<float>(kShuffle, {Tensor::from<float>(x, {n, 2}), key, step}, {{"stream", std::int64_t{3}}});
  const Ints order = permutation(n, 2);
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(y[2 * i], static_cast<float>(order[i]));
    EXPECT_EQ(y[2 * i + 1], static_cast<float>(-order[i]));
  }
  EXPECT_EQ(run<float>(kShuffle, {Tensor::from<float>(y, {n, 2}), key, step},
                       {{"stream", std::int64_t{3}}, {"inverse", true}}),
            x);
}

TEST(Generators, RefuseWhatMakesNoSense) {
  const std::vector<Tensor> in{i64({1}, {}), i64({2}, {}), i64({7}, {1})};
  const auto message = [&](const OpDef& def, Attrs attrs) {
    attrs.set("stream", std::int64_t{0});
    return run_op(def, in, attrs).status().message();
  };
  EXPECT_EQ(message(kUniform, {{"low", 2.0}}),
            "[op uniform] attributes 'low' and 'high': got 2 and 1, expected finite low <= high");
  EXPECT_EQ(message(kNormal, {{"std", -1.0}}),
            "[op normal] attributes 'mean' and 'std': got 0 and -1, expected finite values, std >= 0");
  EXPECT_EQ(message(kBernoulli, {{"probability", 1.5}}),
            "[op bernoulli] attribute 'probability': got 1.5, expected a value in [0, 1]");
  EXPECT_EQ(message(kNormal, {{"dtype", DType::kI64}}),
            "[op normal] attribute 'dtype': got i64, expected f64, f32, bf16 or f16");
}

}  // namespace
}  // namespace trireme::op::testing
