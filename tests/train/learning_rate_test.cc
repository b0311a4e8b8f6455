#include "trireme/train/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace trireme::train {
namespace {

Job::Optimizer optimizer(const std::string& schedule, double warmup) {
  Job::Optimizer o;
  o.lr = 0.4;
  o.schedule = schedule;
  o.warmup = warmup;
  return o;
}

TEST(LearningRate, GrowsLinearlyFromATwentiethOverTheWarmUp) {
  for (const char* schedule : {"constant", "cosine"}) {
    const auto o = optimizer(schedule, 0.2);
    EXPECT_NEAR(learning_rate(o, 0, 1000), 0.4 * 0.05, 1e-12);
    EXPECT_NEAR(learning_rate(o, 100, 1000), 0.4 * (0.05 + 0.95 * 0.5), 1e-12);
    EXPECT_NEAR(learning_rate(o, 199, 1000), 0.4 * (0.05 + 0.95 * 0.995), 1e-12);
    EXPECT_NEAR(learning_rate(o, 200, 1000), 0.4, 1e-12);
  }
}

TEST(LearningRate, StaysConstantAfterTheWarmUp) {
  const auto o = optimizer("constant", 0.1);
  for (const std::int64_t done : {100, 500, 999, 1000, 5000}) EXPECT_EQ(learning_rate(o, done, 1000), 0.4);
}

TEST(LearningRate, FollowsHalfACosineDownToZero) {
  const auto o = optimizer("cosine", 0.2);
  EXPECT_NEAR(learning_rate(o, 600, 1000), 0.2, 1e-12) << "half of the rate half-way after the warm-up";
  EXPECT_NEAR(learning_rate(o, 1000, 1000), 0, 1e-12);
  for (std::int64_t done = 200; done <= 1000; done += 50) {
    const double phase = (static_cast<double>(done) / 1000 - 0.2) / 0.8;
    EXPECT_NEAR(learning_rate(o, done, 1000), 0.2 * (1 + std::cos(std::numbers::pi * phase)), 1e-12) << done;
  }
}

TEST(LearningRate, WithoutWarmUpBeginsAtItsPeak) {
  EXPECT_EQ(learning_rate(optimizer("cosine", 0), 0, 1000), 0.4);
  EXPECT_EQ(learning_rate(optimizer("constant", 0), 0, 1000), 0.4);
}

TEST(LearningRate, BeyondTheEndStaysAtTheEndAndOfAnEmptyRunIsFinite) {
  EXPECT_NEAR(learning_rate(optimizer("cosine", 0.1), 2000, 1000), 0, 1e-12);
  EXPECT_EQ(learning_rate(optimizer("cosine", 0), 0, 0), 0.4);
}

TEST(LearningRate, DependsOnTheShareDoneAloneNeverOnStepSize) {
  const auto o = optimizer("cosine", 0.05);
  for (const std::int64_t scale : {1, 7, 1000})
    EXPECT_NEAR(learning_rate(o, 3 * scale, 10 * scale), learning_rate(o, 3, 10), 1e-15);
}

}  // namespace
}  // namespace trireme::train
