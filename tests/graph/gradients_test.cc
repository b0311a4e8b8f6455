#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/graph/interpreter.h"
#include "trireme/base/rng.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"

namespace trireme::graph {
namespace {

using ::testing::HasSubstr;
constexpr DType kF64 = DType::kF64;

Tensor random_f64(Philox& rng, const Shape& shape) {
  Tensor t = *Tensor::allocate(cpu_device(), {kF64, shape});
  for (double& d : t.values<double>()) d = 2 * rng.next_double() - 1;
  return t;
}

double loss_at(const Graph& g, const Feeds& feeds, std::string_view output) {
  return interpret_output(g, feeds, output).values<double>()[0];
}

// Compares output `grad` with central differences of the scalar `output` by the feed `name`.
void expect_gradient(const Graph& g, const Feeds& feeds, const std::string& output, const std::string& name,
                     const std::string& grad) {
  const Tensor got = interpret_output(g, feeds, grad);
  Feeds moved = copy_of(feeds);
  const std::span<double> x = moved.at(name).values<double>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i], step = 1e-6;
    x[i] = at + step;
    const double up = loss_at(g, moved, output);
    x[i] = at - step;
    const double down = loss_at(g, moved, output);
    x[i] = at;
    const double expected = (up - down) / (2 * step);
    EXPECT_NEAR(got.values<double>()[i], expected, 1e-7 * std::max(1.0, std::abs(expected)) + 1e-8)
        << grad << "[" << i << "]";
  }
}

// Builds a loss over feeds a [3,4], b [4,2], c [2], x [3,4]; adds gradients of a and b and the second order
// of their sum.
void check(const std::function<Value(Builder&, Value a, Value b, Value c, Value x)>& build,
           bool second_order) {
  Graph g;
  Builder b(g);
  const Value va = b.variable("a", kF64, {3, 4}), vb = b.variable("b", kF64, {4, 2}),
              vc = b.variable("c", kF64, {2}), vx = b.input("x", kF64, {3, 4});
  const Value loss = build(b, va, vb, vc, vx);
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  b.output("loss", loss);
  const std::vector<Value> wrt{va, vb, vc};
  Result<std::vector<Value>> grads = add_gradients(g, loss, wrt);
  ASSERT_TRUE(grads.ok()) << grads.status().to_string();
  const std::vector<std::string> names{"a", "b", "c"};
  Value squares;
  for (std::size_t i = 0; i < 3; ++i) {
    b.output("d" + names[i], (*grads)[i]);
    const Value s = b.sum(b.mul((*grads)[i], (*grads)[i]));
    squares = i == 0 ? s : b.add(squares, s);
  }
  if (second_order) {
    b.output("squares", squares);
    Result<std::vector<Value>> second = add_gradients(g, squares, wrt);
    ASSERT_TRUE(second.ok()) << second.status().to_string();
    for (std::size_t i = 0; i < 3; ++i) b.output("dd" + names[i], (*second)[i]);
  }
  ASSERT_TRUE(verify(g).ok()) << verify(g).to_string();

  Philox rng(42);
  const Feeds feeds{{"a", random_f64(rng, {3, 4})},
                    {"b", random_f64(rng, {4, 2})},
                    {"c", random_f64(rng, {2})},
                    {"x", random_f64(rng, {3, 4})}};
  for (const std::string& n : names) {
    expect_gradient(g, feeds, "loss", n, "d" + n);
    if (second_order) expect_gradient(g, feeds, "squares", n, "dd" + n);
  }
}

TEST(Gradients, OfAnMlpMatchFiniteDifferences) {
  check([](Builder& b, Value a, Value w, Value c,
           Value x) { return b.sum(b.tanh(b.bias_add(b.matmul(b.sigmoid(b.mul(a, x)), w), c))); },
        false);
}

TEST(Gradients, OfValuesWithSeveralUsesAreSummed) {
  check(
      [](Builder& b, Value a, Value w, Value c, Value x) {
        const Value h = b.tanh(b.add(a, x));
        const Value y = b.mul(b.matmul(h, w), b.matmul(b.mul(h, h), w));
        return b.sum(b.add(y, b.mul(c, b.sigmoid(y))));
      },
      false);
}

TEST(Gradients, SecondOrderOfElementwiseAndMatmulMatchesFiniteDifferences) {
  check(
      [](Builder& b, Value a, Value w, Value c, Value x) {
        const Value h = b.tanh(b.mul(a, x));
        return b.sum(b.mul(b.add(b.matmul(h, w), c), b.matmul(b.mul(a, a), w)));
      },
      true);
}

TEST(Gradients, AreAddedInTheOrderOfUses) {
  Graph g;
  Builder b(g);
  const Value x = b.variable("x", kF64, {2});
  const Value first = b.tanh(x), second = b.sigmoid(x), third = b.relu(x);
  const Value loss = b.sum(b.add(third, b.add(second, first)));
  const Value dx = (*add_gradients(g, loss, std::vector{x}))[0];
  // (d tanh + d sigmoid) + d relu, whatever the order in which the loss uses them.
  const Node& outer = g.node(dx.node);
  ASSERT_EQ(outer.def->name, "add");
  const Node& inner = g.node(outer.inputs[0].node);
  ASSERT_EQ(inner.def->name, "add");
  EXPECT_THAT(g.node(inner.inputs[0].node).name, HasSubstr("grad/tanh/"));
  EXPECT_THAT(g.node(inner.inputs[1].node).name, HasSubstr("grad/sigmoid/"));
  EXPECT_THAT(g.node(outer.inputs[1].node).name, HasSubstr("grad/relu/"));
}

TEST(Gradients, WithoutADependenceAreZeros) {
  Graph g;
  Builder b(g);
  const Value x = b.variable("x", kF64, {2}), y = b.variable("y", kF64, {3});
  const std::vector<Value> grads = *add_gradients(g, b.sum(x), std::vector{y, x});
  b.output("dy", grads[0]);
  EXPECT_EQ(g.node(grads[0].node).def->name, "fill");
  const Feeds feeds{{"x", Tensor::from<double>(std::vector{1.0, 2.0}, {2})},
                    {"y", Tensor::from<double>(std::vector{1.0, 2.0, 3.0}, {3})}};
  const Tensor dy = interpret_output(g, feeds, "dy");
  for (const double d : dy.values<double>()) EXPECT_EQ(d, 0);
}

TEST(Gradients, AreTakenOnlyAlongPathsFromTheAskedValues) {
  Graph g;
  Builder b(g);
  const Value x = b.variable("x", kF64, {2, 2}), w = b.variable("w", kF64, {2, 2});
  const Value loss = b.sum(b.matmul(b.tanh(x), w));
  const std::int32_t before = g.size();
  ASSERT_TRUE(add_gradients(g, loss, std::vector{w}).ok());
  for (std::int32_t i = before; i < g.size(); ++i)
    EXPECT_THAT(g.node(i).name, ::testing::Not(HasSubstr("grad/tanh"))) << "x was not asked for";
}

TEST(Gradients, AnOpWithoutAGradientOnThePathIsNamed) {
  Graph g;
  Builder b(g);
  const Value x = b.variable("x", kF64, {2});
  const Value changed = b.add_node(op::kAssignAdd, {x, x});
  const Status s = add_gradients(g, b.sum(changed), std::vector{x}).status();
  EXPECT_THAT(s.message(), HasSubstr("assign_add"));
  EXPECT_THAT(s.message(), HasSubstr("no gradient"));
}

// Forms come after gradients: passes make them.
TEST(Gradients, ANodeWithFormsHasNone) {
  Graph g;
  Builder b(g);
  const Value x = b.variable("x", DType::kBF16, {2});
  const Value y = *g.add(op::kRelu, {x}, {}, "", "", *op::parse_forms("f32>-"));
  const Status s = add_gradients(g, b.sum(y), std::vector{x}).status();
  EXPECT_THAT(s.message(), HasSubstr("op 'relu[f32>-]' has no gradient"));
}

TEST(Gradients, NeedAFloatingScalarLoss) {
  Graph g;
  Builder b(g);
  const Value x = b.variable("x", kF64, {2});
  EXPECT_THAT(add_gradients(g, x, std::vector{x}).status().message(), HasSubstr("f64[2]"));
}

TEST(Gradients, SecondAndThirdDerivativesMatchClosedForms) {
  Graph g;
  Builder b(g);
  const Value x = b.variable("x", kF64, {3});
  const Value y = b.sum(b.tanh(x));  // 1 - t^2, then -2 t (1 - t^2), then (1 - t^2) (6 t^2 - 2)
  const Value first = (*add_gradients(g, y, std::vector{x}))[0];
  const Value second = (*add_gradients(g, b.sum(first), std::vector{x}))[0];
  const Value third = (*add_gradients(g, b.sum(second), std::vector{x}))[0];
  b.output("second", second);
  b.output("third", third);
  ASSERT_TRUE(verify(g).ok()) << verify(g).to_string();
  const std::vector<double> at{-0.7, 0.2, 1.3};
  const Feeds feeds{{"x", Tensor::from<double>(at, {3})}};
  const Tensor d2 = interpret_output(g, feeds, "second"), d3 = interpret_output(g, feeds, "third");
  for (std::size_t i = 0; i < 3; ++i) {
    const double t = std::tanh(at[i]);
    EXPECT_NEAR(d2.values<double>()[i], -2 * t * (1 - t * t), 1e-12);
    EXPECT_NEAR(d3.values<double>()[i], (1 - t * t) * (6 * t * t - 2), 1e-12);
  }
}

TEST(Gradients, OfSeveralValuesWithGivenOutputGradientsAreTheirVectorProduct) {
  Graph g;
  Builder b(g);
  const Value x = b.variable("x", kF64, {2}), v = b.input("v", kF64, {2});
  const Value y = b.tanh(x), z = b.mul(x, x);
  // d/dx <v, tanh x> + <1, x * x> = v (1 - tanh^2 x) + 2 x
  const auto dx = add_gradients(g, std::vector{y, z}, std::vector{v, Value{}}, std::vector{x});
  ASSERT_TRUE(dx.ok()) << dx.status().to_string();
  b.output("dx", (*dx)[0]);
  const std::vector<double> at{0.5, -1.5}, weights{3, -2};
  const Tensor got = interpret_output(
      g, {{"x", Tensor::from<double>(at, {2})}, {"v", Tensor::from<double>(weights, {2})}}, "dx");
  for (std::size_t i = 0; i < 2; ++i) {
    const double t = std::tanh(at[i]);
    EXPECT_NEAR(got.values<double>()[i], weights[i] * (1 - t * t) + 2 * at[i], 1e-12);
  }
}

TEST(Gradients, OfAnInnerValueThatIsAlsoFetchedCountBothItsUses) {
  Graph g;
  Builder b(g);
  const Value x = b.variable("x", kF64, {2});
  const Value inner = b.mul(x, x), outer = b.mul(inner, inner);  // x^2 and x^4
  const auto d =
      *add_gradients(g, std::vector{inner, outer}, std::vector{Value{}, Value{}}, std::vector{x, inner});
  b.output("dx", d[0]);
  b.output("dinner", d[1]);
  const std::vector<double> at{0.5, -1.5};
  const Feeds feeds{{"x", Tensor::from<double>(at, {2})}};
  const Tensor dx = interpret_output(g, feeds, "dx"), dinner = interpret_output(g, feeds, "dinner");
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(dx.values<double>()[i], 2 * at[i] + 4 * at[i] * at[i] * at[i], 1e-12);
    EXPECT_NEAR(dinner.values<double>()[i], 1 + 2 * at[i] * at[i], 1e-12);
  }
}

TEST(Gradients, MismatchedOutputGradientsAreRefused) {
  Graph g;
  Builder b(g);
  const Value x = b.variable("x", kF64, {2}), v = b.input("v", kF64, {3});
  const Value y = b.tanh(x);
  EXPECT_THAT(add_gradients(g, std::vector{y}, std::vector{v}, std::vector{x}).status().message(),
              HasSubstr("f64[3], expected f64[2]"));
  EXPECT_THAT(add_gradients(g, std::vector{y}, std::vector<Value>{}, std::vector{x}).status().message(),
              HasSubstr("got 0 output gradients, expected 1"));
}

TEST(Gradients, DoNotFlowThroughStopGradient) {
  Graph g;
  Builder b(g);
  const Value x = b.variable("x", kF64, {2});
  const Value loss = b.sum(b.mul(x, b.stop_gradient(b.mul(x, x))));  // d = the constant x^2, not 3 x^2
  b.output("loss", loss);
  b.output("dx", (*add_gradients(g, loss, std::vector{x}))[0]);
  const std::vector<double> at{0.5, -3};
  const Tensor dx = interpret_output(g, {{"x", Tensor::from<double>(at, {2})}}, "dx");
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(dx.values<double>()[i], at[i] * at[i]);
}

TEST(Gradients, NodesRememberWhereTheirOpWasBuilt) {
  Graph g;
  Builder b(g);
  const Value x = b.variable("x", kF64, {2});
  const Value y = b.tanh(x);
  const Value dx = (*add_gradients(g, b.sum(y), std::vector{x}))[0];
  EXPECT_EQ(g.node(dx.node).site, g.node(y.node).site);
  EXPECT_THAT(g.node(y.node).site, HasSubstr("graph/gradients_test.cc:"));
}

}  // namespace
}  // namespace trireme::graph
