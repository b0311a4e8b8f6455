#include "trireme/eager/gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/eager/context.h"
#include "trireme/eager/ops.h"
#include "trireme/op/ops.h"

namespace trireme::eager {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> floats(const Array& a) {
  const auto values = a.values<float>();
  EXPECT_TRUE(values.ok()) << values.status().to_string();
  return values.ok() ? *values : std::vector<float>{};
}

Tensor tensor(std::vector<float> values) {
  return Tensor::from<float>(values, {static_cast<std::int64_t>(values.size())});
}

TEST(Backward, GivesTheGradientsOfALinearModel) {
  Context ctx;
  const Array x = ctx.array({1, 2, 3, 4}, {2, 2}), y = ctx.array({1, 1}, {2, 1});
  const Array w = ctx.parameter("w", *tensor({0.5F, -1}).reshape({2, 1})),
              b = ctx.parameter("b", tensor({0.25F}));
  const Array loss = square(matmul(x, w) + b - y).sum();
  loss.backward();
  ASSERT_TRUE(ctx.status().ok()) << ctx.status().to_string();
  // residuals: 0.5 - 2 + 0.25 - 1 = -2.25 and 1.5 - 4 + 0.25 - 1 = -3.25; dw = 2 x^T r, db = 2 sum r
  EXPECT_THAT(floats(w.grad()), ElementsAre(-24, -35));
  EXPECT_THAT(floats(b.grad()), ElementsAre(-11));
  EXPECT_TRUE(x.grad().is_empty()) << "x is no parameter";
}

TEST(Backward, AddsToWhatIsThereUntilItIsCleared) {
  Context ctx;
  const Array w = ctx.parameter("w", tensor({2}));
  square(w).sum().backward();
  (w * 3.0).sum().backward();
  EXPECT_THAT(floats(w.grad()), ElementsAre(7));
  w.clear_grad();
  EXPECT_TRUE(w.grad().is_empty());
  (w * 3.0).sum().backward();
  EXPECT_THAT(floats(w.grad()), ElementsAre(3));
}

TEST(Backward, AddsOverAllUsesAndStopsAtDetachedValuesAndNoGrad) {
  Context ctx;
  const Array w = ctx.parameter("w", tensor({3}));
  Array constant;
  {
    const NoGrad off = ctx.no_grad();
    constant = w * 10.0;
  }
  const Array loss = (w * w + w * w.detached() + constant * w).sum();
  loss.backward();
  EXPECT_THAT(floats(w.grad()), ElementsAre(6 + 3 + 30));
  EXPECT_FALSE(constant.ok() && !constant.grad().is_empty());
}

TEST(Gradients, OfSecondAndThirdOrder) {
  Context ctx;
  const Array x = ctx.array({2, -1}, {2}).watched();
  const Array y = (x * x * x * x).sum();
  const GradientOptions keep{.create_graph = true};
  const Array first = gradients(y, std::vector{x}, keep)[0];
  EXPECT_THAT(floats(first), ElementsAre(32, -4)) << "4 x^3";
  const Array second = gradients(first.sum(), std::vector{x}, keep)[0];
  EXPECT_THAT(floats(second), ElementsAre(48, 12)) << "12 x^2";
  const Array third = gradients(second.sum(), std::vector{x})[0];
  EXPECT_THAT(floats(third), ElementsAre(48, -24)) << "24 x";
  EXPECT_THAT(gradients(third.sum(), std::vector{x})[0].status().message(), HasSubstr("no watched array"))
      << "without create_graph the last one is not on the tape";
}

TEST(Gradients, OfTanhTwice) {
  Context ctx;
  const Array x = ctx.array({0.5F}, {1}).watched();
  const Array d = gradients(tanh(x).sum(), std::vector{x}, {.create_graph = true})[0];
  const Array dd = gradients(d.sum(), std::vector{x})[0];
  const double t = std::tanh(0.5);
  EXPECT_NEAR(*dd.item(), -2 * t * (1 - t * t), 1e-6);
}

TEST(Gradients, WithRespectToInnerValuesAndToWhatDoesNotMatter) {
  Context ctx;
  const Array w = ctx.parameter("w", tensor({3})), unused = ctx.parameter("u", tensor({1, 2}));
  const Array inner = w * 2.0;
  const std::vector<Array> g = gradients(square(inner).sum(), std::vector{inner, w, unused});
  EXPECT_THAT(floats(g[0]), ElementsAre(12));
  EXPECT_THAT(floats(g[1]), ElementsAre(24));
  EXPECT_THAT(floats(g[2]), ElementsAre(0, 0));
  EXPECT_TRUE(w.grad().is_empty()) << "gradients() leaves grad() alone";
}

TEST(Gradients, AValueChangedInPlaceAfterItsUseIsAnErrorThatNamesBoth) {
  Context ctx;
  const Array w = ctx.parameter("w", tensor({3}));
  const Array loss = square(w).sum();
  apply_sgd(w, ctx.array({1}, {1}), 0.1);
  loss.backward();
  EXPECT_THAT(ctx.status().message(), AllOf(HasSubstr("gradient of square"), HasSubstr("input 0 w"),
                                            HasSubstr("apply_sgd"), HasSubstr("before the update")));
  EXPECT_FALSE(w.grad().ok());
  ctx.clear_status();
  w.clear_grad();
  const Array linear = (w * 2.0).sum();
  apply_sgd(w, ctx.array({1}, {1}), 0.1);
  linear.backward();
  EXPECT_TRUE(ctx.status().ok()) << "the gradient of a product with a number does not need w";
  EXPECT_THAT(floats(w.grad()), ElementsAre(2));
}

TEST(Gradients, MistakesHaveClearMessages) {
  Context ctx;
  const Array w = ctx.parameter("w", tensor({3, 4})), x = ctx.array({1, 2}, {2});
  w.backward();
  EXPECT_THAT(ctx.status().message(), HasSubstr("expected a floating scalar; sum it first"));
  ctx.clear_status();
  x.sum().backward();
  EXPECT_THAT(ctx.status().message(), HasSubstr("no parameter"));
  EXPECT_THAT(gradients(w.sum(), std::vector{x})[0].status().message(),
              HasSubstr("array 0 (f32[2]) is not watched"));
  EXPECT_FALSE(gradients(Array(), std::vector{w})[0].ok());
}

}  // namespace
}  // namespace trireme::eager
