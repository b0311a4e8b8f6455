#include "trireme/graph/expr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/graph/interpreter.h"
#include "trireme/graph/pass/passes.h"

namespace trireme::graph {
namespace {

using ::testing::HasSubstr;
constexpr DType kF64 = DType::kF64;

Tensor doubles(const std::vector<double>& v, const Shape& s) { return Tensor::from<double>(v, s); }

TEST(Expr, AFormulaBuildsTheGraphItReadsLike) {
  Graph g;
  Builder b(g);
  const Expr x{b, b.input("x", kF64, {1, 2})}, w{b, b.variable("w", kF64, {2, 2})},
      c{b, b.variable("c", kF64, {2})};
  b.output("y", relu(matmul(x, w) + c));
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  const Feeds feeds{
      {"x", doubles({1, 2}, {1, 2})}, {"w", doubles({1, 2, 3, -4}, {2, 2})}, {"c", doubles({0.5, 1}, {2})}};
  const Tensor y = interpret_output(g, feeds, "y");
  EXPECT_EQ(y.values<double>()[0], 7.5);
  EXPECT_EQ(y.values<double>()[1], 0);
}

TEST(Expr, NumbersTakePartInEveryOperator) {
  Graph g;
  Builder b(g);
  const Expr x{b, b.input("x", kF64, {2})};
  b.output("y", 1.0 / (1.0 + exp(-(2.0 * x - 1.0) / 2.0)) * 3.0 - 0.5 + (4.0 - x) - square(x) / x);
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  const Tensor y = interpret_output(g, {{"x", doubles({0.3, -2}, {2})}}, "y");
  for (const std::size_t i : {0U, 1U}) {
    const double v = i == 0 ? 0.3 : -2;
    EXPECT_NEAR(y.values<double>()[i], 1 / (1 + std::exp(-(2 * v - 1) / 2)) * 3 - 0.5 + (4 - v) - v * v / v,
                1e-12);
  }
}

TEST(Expr, NodesRememberTheLineOfTheirFormula) {
  Graph g;
  Builder b(g);
  const Expr x{b, b.input("x", kF64, {2})};
  const int line = __LINE__ + 1;
  const Expr y = tanh(x) + x * 2.0;
  const std::string site = fmt::format("graph/expr_test.cc:{}", line);
  EXPECT_EQ(g.node(y.value().node).site, site);
  for (const Value v : g.node(y.value().node).inputs) EXPECT_EQ(g.node(v.node).site, site);
  EXPECT_THAT(g.to_text(), HasSubstr("# tanh @ " + site));
}

TEST(Expr, TheFirstFailureSticksAndNamesItsLine) {
  Graph g;
  Builder b(g);
  const Expr x{b, b.input("x", kF64, {2})}, y{b, b.input("y", kF64, {3})};
  const int line = __LINE__ + 1;
  const Expr z = relu(x + y) + 1.0;
  EXPECT_TRUE(z.value().is_null());
  EXPECT_THAT(b.status().message(), HasSubstr(fmt::format("built at graph/expr_test.cc:{}", line)));
}

TEST(Expr, ReductionsAndGradientsOfAFormula) {
  Graph g;
  Builder b(g);
  const Expr x{b, b.variable("x", kF64, {2, 2})};
  const Expr loss = sum(square(x)) + mean(sum(x, {0}));
  const auto dx = *add_gradients(g, loss, std::vector<Value>{x});
  b.output("dx", dx[0]);
  const Tensor t = interpret_output(g, {{"x", doubles({1, 2, 3, 4}, {2, 2})}}, "dx");
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(t.values<double>()[i], 2.0 * static_cast<double>(i + 1) + 0.5);
}

}  // namespace
}  // namespace trireme::graph
