// Schedules against their closed forms.
#include "trireme/model/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <set>

namespace trireme::model {
namespace {

constexpr std::int64_t kTotal = 100'000;

Schedule schedule(const char* kind, double lr = 2) {
  Schedule s;
  s.kind = kind;
  s.lr = lr;
  if (s.kind == "step") s.milestones = {0.3, 0.6, 0.8};
  return s;
}
double lr(const Schedule& s, double progress) {
  return schedule_at(s, std::llround(progress * kTotal), kTotal).lr;
}

TEST(Schedule, EveryKindPassesItsCheckStartsAtItsRateAndIsDescribed) {
  std::set<std::string> names;
  for (const ScheduleRow& row : schedule_table()) {
    EXPECT_TRUE(names.insert(row.name).second);
    const Status status = check_schedule(schedule(row.name));
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_DOUBLE_EQ(lr(schedule(row.name), 0), std::string(row.name) == "one-cycle" ? 2.0 / 25 : 2.0)
        << row.name;
    EXPECT_GT(std::string(row.doc).size(), 5U);
  }
}

TEST(Schedule, ConstantStays) {
  for (const double p : {0.0, 0.4, 1.0}) EXPECT_EQ(lr(schedule("constant"), p), 2);
}

TEST(Schedule, StepFallsAtItsMilestonesAndNotBefore) {
  const Schedule s = schedule("step");
  EXPECT_DOUBLE_EQ(schedule_at(s, 29'999, kTotal).lr, 2);
  EXPECT_DOUBLE_EQ(schedule_at(s, 30'000, kTotal).lr, 0.2);
  EXPECT_DOUBLE_EQ(lr(s, 0.59), 0.2);
  EXPECT_DOUBLE_EQ(lr(s, 0.7), 0.02);
  EXPECT_DOUBLE_EQ(lr(s, 1), 0.002);
}

TEST(Schedule, CosinePolynomialAndExponentialFollowTheirFormulas) {
  Schedule cosine = schedule("cosine"), poly = schedule("polynomial"), expo = schedule("exponential");
  poly.power = 2;
  expo.factor = 0.01;
  for (const double p : {0.0, 0.25, 0.5, 0.9, 1.0}) {
    EXPECT_NEAR(lr(cosine, p), 1 + std::cos(std::numbers::pi * p), 1e-12);
    EXPECT_NEAR(lr(poly, p), 2 * (1 - p) * (1 - p), 1e-12);
    EXPECT_NEAR(lr(expo, p), 2 * std::pow(0.01, p), 1e-12);
  }
  cosine.final_share = poly.final_share = 0.25;
  EXPECT_NEAR(lr(cosine, 1), 0.5, 1e-12);
  EXPECT_NEAR(lr(cosine, 0.5), 0.5 + 1.5 / 2, 1e-12);
  EXPECT_NEAR(lr(poly, 0.5), 0.5 + 1.5 / 4, 1e-12);
}

TEST(Schedule, WarmUpRisesLinearlyAndTheRestOfTheRunFollows) {
  Schedule s = schedule("cosine");
  s.warmup = 0.2;
  EXPECT_NEAR(lr(s, 0), 0.1, 1e-12);
  EXPECT_NEAR(lr(s, 0.1), 2 * (0.5 * 0.95 + 0.05), 1e-12);
  EXPECT_NEAR(lr(s, 0.2), 2, 1e-12);
  EXPECT_NEAR(lr(s, 0.6), 1, 1e-12) << "half of what is left";
  s.warmup_start = 0;
  EXPECT_EQ(lr(s, 0), 0);
}

TEST(Schedule, OneCycleRisesFallsAndEndsFarBelowItsStart) {
  const Schedule s = schedule("one-cycle");
  const double start = 2.0 / 25, end = start / 1e4;
  EXPECT_NEAR(lr(s, 0), start, 1e-12);
  EXPECT_NEAR(lr(s, 0.15), (start + 2) / 2, 1e-12);
  EXPECT_NEAR(lr(s, 0.3), 2, 1e-12);
  EXPECT_NEAR(lr(s, 0.65), (end + 2) / 2, 1e-12);
  EXPECT_NEAR(lr(s, 1), end, 1e-12);
  Schedule early = s;
  early.warmup = 0.1;
  EXPECT_NEAR(lr(early, 0.1), 2, 1e-12);
}

// Goyal et al. 2017: 0.1 for 256 samples, k = 32, five of 90 epochs of warm-up from 0.1 to 3.2.
TEST(Schedule, LinearScalingWarmsUpFromTheRateOfTheReferenceBatch) {
  Schedule s = schedule("step", 0.1);
  s.milestones = {30.0 / 90, 60.0 / 90, 80.0 / 90};
  s.batch = 8192;
  s.reference_batch = 256;
  s.warmup = 5.0 / 90;
  ASSERT_TRUE(check_schedule(s).ok());
  const std::int64_t epoch = 1'281'167, total = 90 * epoch;
  EXPECT_NEAR(schedule_at(s, 0, total).lr, 0.1, 1e-12);
  EXPECT_NEAR(schedule_at(s, 5 * epoch / 2, total).lr, (0.1 + 3.2) / 2, 1e-6);
  EXPECT_NEAR(schedule_at(s, 5 * epoch + 1, total).lr, 3.2, 1e-12);
  EXPECT_NEAR(schedule_at(s, 45 * epoch, total).lr, 0.32, 1e-12);
  EXPECT_NEAR(schedule_at(s, 89 * epoch, total).lr, 0.0032, 1e-12);
}

TEST(Schedule, ABatchSmallerThanTheReferenceScalesDown) {
  Schedule s = schedule("constant", 0.1);
  s.batch = 64;
  s.reference_batch = 256;
  EXPECT_NEAR(lr(s, 0.5), 0.025, 1e-12);
  s.warmup = 0.5;
  EXPECT_NEAR(lr(s, 0), 0.025, 1e-12) << "never starts above its peak";
}

TEST(Schedule, TheBatchGrowsWhereTheRateWouldFall) {
  Schedule s = schedule("step", 0.1);
  s.factor = 0.2;
  s.max_batch_multiplier = 25;
  const double rates[] = {0.1, 0.1, 0.1, 0.02};  // Smith et al. 2018: at the cap the rate decays after all
  const std::int64_t multipliers[] = {1, 5, 25, 25};
  const double at[] = {0.1, 0.4, 0.7, 0.9};
  for (int i = 0; i < 4; ++i) {
    const SchedulePoint point = schedule_at(s, std::llround(at[i] * kTotal), kTotal);
    EXPECT_EQ(point.batch_multiplier, multipliers[i]) << at[i];
    EXPECT_NEAR(point.lr, rates[i], 1e-9) << at[i];
  }
}

TEST(Schedule, GrowthKeepsTheRatioOfRateAndBatch) {
  for (const char* kind : {"cosine", "exponential", "polynomial", "step"}) {
    Schedule decays = schedule(kind);
    decays.factor = 0.05;
    Schedule grows = decays;
    grows.max_batch_multiplier = 16;
    std::int64_t last = 1;
    for (int i = 0; i <= 20; ++i) {
      const double p = i / 20.0;
      const SchedulePoint point = schedule_at(grows, std::llround(p * kTotal), kTotal);
      EXPECT_NEAR(point.lr / static_cast<double>(point.batch_multiplier), lr(decays, p), 1e-12) << kind;
      EXPECT_GE(point.batch_multiplier, last) << kind;
      EXPECT_LE(point.batch_multiplier, 16) << kind;
      last = point.batch_multiplier;
    }
    EXPECT_EQ(last, 16) << kind << " for " << lr(decays, 1);
  }
}

TEST(Schedule, VelocitiesAreCorrectedByTheRatioOfRates) {
  Schedule s = schedule("step");
  EXPECT_EQ(velocity_factor(s, -1, 0, kTotal), 1);
  EXPECT_EQ(velocity_factor(s, 1000, 2000, kTotal), 1);
  EXPECT_DOUBLE_EQ(velocity_factor(s, 29'900, 30'000, kTotal), 0.1);
  s.warmup = 0.1;
  s.warmup_start = 0;
  EXPECT_EQ(velocity_factor(s, 0, 100, kTotal), 1) << "the last rate was zero";
}

TEST(Schedule, IsDefinedBeyondTheEndsAndWithoutAnEnd) {
  const Schedule s = schedule("cosine");
  EXPECT_NEAR(schedule_at(s, 2 * kTotal, kTotal).lr, 0, 1e-12);
  EXPECT_EQ(schedule_at(s, 5, 0).lr, 2);
}

TEST(Schedule, MistakesAreRefused) {
  const auto message = [](void (*change)(Schedule&)) {
    Schedule s;
    change(s);
    return check_schedule(s).message();
  };
  EXPECT_NE(
      message([](Schedule& s) { s.kind = "cosin"; }).find("got 'cosin', expected one of: constant, step"),
      std::string::npos);
  const std::pair<const char*, void (*)(Schedule&)> cases[] = {
      {"lr: got 0", [](Schedule& s) { s.lr = 0; }},
      {"lr: got inf", [](Schedule& s) { s.lr = INFINITY; }},
      {"warmup: got 1", [](Schedule& s) { s.warmup = 1; }},
      {"warmup_start: got -0.5", [](Schedule& s) { s.warmup_start = -0.5; }},
      {"final_share: got 2", [](Schedule& s) { s.final_share = 2; }},
      {"factor: got 0", [](Schedule& s) { s.factor = 0; }},
      {"power: got -1", [](Schedule& s) { s.power = -1; }},
      {"start_divisor: got 0.5", [](Schedule& s) { s.start_divisor = 0.5; }},
      {"milestones: got 1", [](Schedule& s) { s.milestones = {0.5}; }},
      {"milestones: got 0.2",
       [](Schedule& s) {
         s.kind = "step", s.milestones = {0.5, 0.2};
       }},
      {"milestones: got 0", [](Schedule& s) { s.kind = "step"; }},
      {"batch: got 0", [](Schedule& s) { s.reference_batch = 256; }},
      {"max_batch_multiplier: got 0", [](Schedule& s) { s.max_batch_multiplier = 0; }},
  };
  for (const auto& [text, change] : cases)
    EXPECT_NE(message(change).find(text), std::string::npos) << message(change);
}

}  // namespace
}  // namespace trireme::model
