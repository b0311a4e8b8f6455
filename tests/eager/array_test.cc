#include "trireme/eager/array.h"

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

std::vector<float> floats(const Array& a) { return *a.values<float>(); }

Tensor tensor(std::vector<float> values) {
  return Tensor::from<float>(values, {static_cast<std::int64_t>(values.size())});
}

TEST(Array, ComputesAtOnce) {
  Context ctx;
  const Array a = ctx.array({1, 2, 3, 4}, {2, 2}), b = ctx.array({10, 20}, {2});
  EXPECT_THAT(floats(a + b), ElementsAre(11, 22, 13, 24));
  EXPECT_THAT(floats(2 * a - 1), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(floats(1 / (a + 1.0)), ElementsAre(0.5F, 1.0F / 3, 0.25F, 0.2F));
  EXPECT_THAT(floats(-matmul(a, a, false, true)), ElementsAre(-5, -11, -11, -25));
  EXPECT_THAT(floats(sum(a, {0})), ElementsAre(4, 6));
  EXPECT_EQ(*a.sum().item(), 10);
  EXPECT_EQ(*a.mean().item(), 2.5);
  EXPECT_THAT(floats(transpose(a, {1, 0})), ElementsAre(1, 3, 2, 4));
  EXPECT_EQ(a.reshape({4}).shape(), Shape({4}));
  EXPECT_EQ(cast(a, DType::kI32).dtype(), DType::kI32);
  EXPECT_TRUE(ctx.status().ok()) << ctx.status().to_string();
}

TEST(Array, EveryOpGoesThroughApplyWithAllItsOutputs) {
  Context ctx;
  const std::vector<Array> in{ctx.array({3, 1, 2}, {1, 3})};
  const std::vector<Array> out = ctx.apply(op::kArgmax, in, {{"axis", std::int64_t{1}}});
  ASSERT_EQ(out.size(), 1U);
  EXPECT_TRUE(out[0].ok()) << out[0].status().to_string();
  EXPECT_EQ(*cast(out[0], DType::kF32).sum().item(), 0);
}

TEST(Array, AFailureIsCarriedAlongAndReportedWhereTheValueIsRead) {
  Context ctx;
  const Array a = ctx.array({1, 2, 3}, {3}), b = ctx.array({1, 2}, {2});
  const Array bad = a + b;
  EXPECT_FALSE(bad.ok());
  const Array later = relu(bad * 2.0).sum();
  EXPECT_THAT(later.tensor().status().message(), AllOf(HasSubstr("[eager]"), HasSubstr("[op add]")));
  EXPECT_EQ(later.status().message(), bad.status().message()) << "the first cause, not the last victim";
  EXPECT_EQ(ctx.status().message(), bad.status().message());
  EXPECT_TRUE((a + a).ok()) << "a failure does not spread to what does not use it";
  ctx.clear_status();
  EXPECT_TRUE(ctx.status().ok());
}

TEST(Array, MistakesHaveClearMessages) {
  Context ctx, other;
  const Array a = ctx.array({1, 2}, {2});
  EXPECT_THAT((a + Array()).status().message(), HasSubstr("input 1 is an empty Array"));
  EXPECT_THAT((Array() + Array()).status().message(), HasSubstr("only empty Arrays"));
  EXPECT_THAT((a + other.array({1, 2}, {2})).status().message(), HasSubstr("another Context"));
  EXPECT_THAT(a.values<double>().status().message(), HasSubstr("are f32, read as f64"));
  EXPECT_THAT(a.item().status().message(), HasSubstr("expected one element"));
  EXPECT_THAT(ctx.array(Tensor()).status().message(), HasSubstr("without memory"));
  EXPECT_THAT(eager::apply(op::kAllreduce, std::vector{a}).status().message(), HasSubstr("in graphs only"));
  EXPECT_THAT(assign(a, a).status().message(), HasSubstr("expected a parameter or state"));
  EXPECT_THAT(eager::apply(op::kScale, std::vector{a}, {{"by", 2.0}}).status().message(),
              HasSubstr("unknown attribute"));
}

TEST(Array, MutatingOpsChangeParametersInPlaceAndNothingElse) {
  Context ctx;
  const Array w = ctx.parameter("w", tensor({1, 2})), v = ctx.state("v", tensor({0, 0}));
  const Array view = w.reshape({2, 1}), detached = w.detached(), double_w = w * 2.0;
  EXPECT_THAT(floats(apply_sgd(w, ctx.array({1, 1}, {2}), 0.5)), ElementsAre(0.5F, 1.5F));
  EXPECT_THAT(floats(w), ElementsAre(0.5F, 1.5F));
  EXPECT_THAT(floats(view), ElementsAre(1, 2)) << "a reshape of a parameter is a value of its own";
  EXPECT_THAT(floats(detached), ElementsAre(1, 2));
  EXPECT_THAT(floats(double_w), ElementsAre(2, 4));
  apply_momentum(w, v, ctx.array({1, 2}, {2}), 1.0, 0.5);
  EXPECT_THAT(floats(w), ElementsAre(-0.5F, -0.5F));
  EXPECT_THAT(floats(v), ElementsAre(1, 2));
  assign(w, ctx.array({7, 8}, {2}));
  EXPECT_THAT(floats(assign_add(w, w)), ElementsAre(14, 16));
}

TEST(Array, IsACopyOfTheTensorItIsMadeFrom) {
  Context ctx;
  const Tensor source = tensor({1, 2, 3, 4});
  const Array a = ctx.array(source), column = ctx.array(source.reshape({2, 2})->slice(1, 1, 2));
  source.data<float>()[1] = 9;
  EXPECT_THAT(floats(a), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(floats(column), ElementsAre(2, 4)) << "strided tensors become row-major";
}

TEST(Array, ALongTapeGoesWithoutDeepRecursion) {
  Context ctx;
  Array x = ctx.parameter("x", tensor({1}));
  for (int i = 0; i < 50'000; ++i) x = -x;
  EXPECT_EQ(*x.item(), 1);
  x = {};
}

}  // namespace
}  // namespace trireme::eager
