// The elementwise functions: how close they come, and that every instruction set gives the same bits.
#include "trireme/kernel/cpu/simd/functions.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <vector>

#include "trireme/kernel/cpu/simd/sets.h"

namespace trireme::kernel {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Function {
  const char* name;
  UnaryLoop FunctionLoops::*loop;
  std::function<double(double)> exact;
  float low, high;  // where it is tried
  double units;     // of the last place of the result, at most
};

std::vector<Function> functions() {
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  return {
      {"exp", &FunctionLoops::exp, [](double v) { return std::exp(v); }, -104, 88.5F, 1.5},
      {"tanh", &FunctionLoops::tanh, [](double v) { return std::tanh(v); }, -12, 12, 3},
      {"sigmoid", &FunctionLoops::sigmoid, sigmoid, -87, 90, 3},
      {"silu", &FunctionLoops::silu, [=](double v) { return v * sigmoid(v); }, -87, 90, 3},
      {"erf", &FunctionLoops::erf, [](double v) { return std::erf(v); }, -6, 6, 3},
      {"softplus", &FunctionLoops::softplus, [](double v) { return std::log1p(std::exp(v)); }, -87, 87, 3},
      {"gelu", &FunctionLoops::gelu,
       [](double v) { return 0.5 * v * (1 + std::erf(v / std::numbers::sqrt2)); }, -1, 20, 4},
      {"gelu_tanh", &FunctionLoops::gelu_tanh,
       [](double v) {
         const double u = std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v);
         return 0.5 * v * (1 + std::tanh(u));
       },
       -1, 20, 5}};
}

// An even walk over the range, and small numbers of either sign.
std::vector<float> points(const Function& f) {
  std::vector<float> x;
  constexpr int kSteps = 50000;
  for (int i = 0; i <= kSteps; ++i)
    x.push_back(f.low + (f.high - f.low) * static_cast<float>(i) / static_cast<float>(kSteps));
  for (int e = -120; e < 0; ++e)
    for (const float sign : {1.0F, -1.0F}) x.push_back(sign * std::ldexp(1.3F, e));
  return x;
}

std::vector<float> run(const FunctionLoops& loops, const Function& f, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  (loops.*f.loop)(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  return y;
}

TEST(Functions, AreWithinAFewUnitsInTheLastPlace) {
  for (const Function& f : functions()) {
    const std::vector<float> x = points(f), y = run(function_loops(), f, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = f.exact(static_cast<double>(x[i]));
      const float size = std::abs(static_cast<float>(want));
      const double unit = static_cast<double>(std::nextafter(size, kInf)) - static_cast<double>(size);
      ASSERT_LE(std::abs(static_cast<double>(y[i]) - want), f.units * unit) << f.name << " of " << x[i];
    }
  }
}

// From the smallest number on, twice as far with every few points; and close to 1, where the result is small.
TEST(Functions, LogIsWithinTwoUnitsInTheLastPlaceOverTheWholeRange) {
  std::vector<float> x;
  for (float v = std::numeric_limits<float>::denorm_min(); v < kInf;
       v = std::max(std::nextafter(v, kInf), v * 1.0037F))
    x.push_back(v);
  for (int i = -30000; i < 30000; ++i) x.push_back(1 + static_cast<float>(i) * 1e-5F);
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<float> y(x.size()), plain(x.size());
  function_loops().log(x.data(), y.data(), n);
  kBaselineFunctions.log(x.data(), plain.data(), n);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = std::log(static_cast<double>(x[i]));
    const float size = std::abs(static_cast<float>(want));
    const double unit = static_cast<double>(std::nextafter(size, kInf)) - static_cast<double>(size);
    ASSERT_LE(std::abs(static_cast<double>(y[i]) - want), 2 * unit) << "log of " << x[i];
    ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(plain[i])) << x[i];
  }
  const float special[]{0, -0.0F, kInf, -1, -kInf, std::numeric_limits<float>::quiet_NaN()};
  float out[6];
  function_loops().log(special, out, 6);
  EXPECT_EQ(out[0], -kInf);
  EXPECT_EQ(out[1], -kInf);
  EXPECT_EQ(out[2], kInf);
  for (int i = 3; i < 6; ++i) EXPECT_TRUE(std::isnan(out[i]));
}

TEST(Functions, GoToTheirLimitsAndKeepNotANumber) {
  const FunctionLoops& loops = function_loops();
  const auto at = [](UnaryLoop loop, float x) {
    float y = -7;
    loop(&x, &y, 1);
    return y;
  };
  for (const Function& f : functions())
    EXPECT_TRUE(std::isnan(at(loops.*f.loop, std::numeric_limits<float>::quiet_NaN()))) << f.name;
  for (const float far : {kInf, 1e30F}) {
    EXPECT_EQ(at(loops.exp, far), kInf);
    EXPECT_EQ(at(loops.exp, -far), 0);
    for (const UnaryLoop loop : {loops.tanh, loops.erf}) {
      EXPECT_EQ(at(loop, far), 1);
      EXPECT_EQ(at(loop, -far), -1);
    }
    EXPECT_EQ(at(loops.sigmoid, far), 1);
    EXPECT_EQ(at(loops.sigmoid, -far), 0);
    for (const UnaryLoop loop : {loops.gelu, loops.gelu_tanh, loops.silu, loops.softplus})
      EXPECT_EQ(at(loop, far), far);
    EXPECT_EQ(at(loops.softplus, -far), 0);
  }
}

TEST(Functions, GiveTheSameBitsOnEveryInstructionSet) {
  for (const Function& f : functions()) {
    const std::vector<float> x = points(f);
    const std::vector<float> fast = run(function_loops(), f, x), plain = run(kBaselineFunctions, f, x);
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(fast[i]), std::bit_cast<std::uint32_t>(plain[i]))
          << f.name << " of " << x[i];
  }
}

// Rows of several lengths through every loop over rows.
std::vector<float> run_rows(const RowLoops& loops, std::int64_t n) {
  const auto size = static_cast<std::size_t>(n);
  std::vector<float> x(size * 2), scale(size), out(size * 5 + 4);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i));
  for (std::size_t i = 0; i < size; ++i) scale[i] = std::cos(static_cast<float>(i));
  float* to = out.data() + 4;
  loops.norm(x.data(), scale.data(), scale.data(), 1e-5F, to, &out[0], &out[1], n);
  loops.norm_grad(x.data(), scale.data(), x.data() + n, 0.1F, 0.7F, to + n, n);
  std::vector<double> sums(size * 2);
  const float mean[]{0.1F, -0.2F}, inv[]{0.7F, 1.3F};
  loops.norm_param_grad(x.data(), x.data(), mean, inv, 2, n, sums.data(), sums.data() + n);
  for (std::size_t i = 0; i < size; ++i) to[2 * size + i] = static_cast<float>(sums[i] - sums[size + i]);
  std::copy(x.begin(), x.end(), to + 3 * n);
  loops.softmax(to + 3 * n, 3, n);
  loops.softmax_grad(to + 3 * n, to + 4 * n, 0.5F, n);
  loops.shifted_exp(x.data(), x.data(), &out[2], &out[3], n);
  return out;
}

TEST(RowLoops, GiveTheSameBitsOnEveryInstructionSet) {
  for (const std::int64_t n : {1, 15, 16, 17, 63, 64, 200, 5000}) {
    const std::vector<float> fast = run_rows(row_loops(), n), plain = run_rows(kBaselineRows, n);
    for (std::size_t i = 0; i < fast.size(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(fast[i]), std::bit_cast<std::uint32_t>(plain[i]))
          << "element " << i << " of rows of " << n;
  }
}

}  // namespace
}  // namespace trireme::kernel
