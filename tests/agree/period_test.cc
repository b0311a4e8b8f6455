#include "trireme/agree/mechanism/period.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/agree/quadratic.h"

namespace trireme::agree {
namespace {

using testing::QuadraticJob;
using testing::QuadraticRun;
using testing::run_well;

// 4 MB of weights: an exchange takes several steps' time on the default link.
QuadraticJob automatic() {
  QuadraticJob job;
  job.rule = "averaging";
  job.options.own.set("period", 0);
  job.letters = true;
  job.workers = 3;
  job.steps = 400;
  job.bucket_elems = {1'000'000, 1000};
  job.world.phantom = true;
  return job;
}

TEST(PeriodCounters, EveryPeriodEndsWithItsLastStep) {
  PeriodCounters c(3);
  std::vector<bool> ends;
  for (int i = 0; i < 7; ++i) ends.push_back(c.count_step());
  EXPECT_THAT(ends, ::testing::ElementsAre(false, false, true, false, false, true, false));
  EXPECT_EQ(c.rounds(), 2);
  c.set_period(2);
  EXPECT_TRUE(c.count_step()) << "a new period counts from the last exchange";
}

TEST(AutoPeriod, ExchangesTakeAboutATenthOfTheTime) {
  const QuadraticRun r = run_well(automatic());
  const auto& w = r.workers[0];
  const auto period = w.report.more["period"].get<std::int64_t>();
  EXPECT_GT(period, 10);
  for (const auto& other : r.workers) {
    EXPECT_EQ(other.report.exchanges, w.report.exchanges);
    EXPECT_EQ(other.ended.size(), 400U);
  }
  EXPECT_NEAR(static_cast<double>(w.report.exchanges), 400.0 / static_cast<double>(period), 3);
  const double exposed = to_seconds(w.ended[399] - w.ended[99]) / 0.3 - 1;
  EXPECT_GT(exposed, 0.05);
  EXPECT_LT(exposed, 0.13);
}

TEST(AutoPeriod, WaitingForASlowWorkerIsNotACostOfTheExchange) {
  QuadraticJob job = automatic();
  const auto even = run_well(job).workers[0].report.more["period"].get<double>();
  job.compute_ns = {kMilli, kMilli, 4 * kMilli};
  const auto uneven = run_well(job).workers[0].report.more["period"].get<double>();
  EXPECT_NEAR(uneven, even / 4, 0.1 * even) << "steps of the slowest are four times as long";
}

TEST(AutoPeriod, ACheapExchangeIsMadeEveryStep) {
  QuadraticJob job = automatic();
  job.world.phantom = false;
  job.bucket_elems = {2};
  job.start = {8};
  job.compute_ns = {10 * kMilli};
  job.steps = 20;
  const QuadraticRun r = run_well(job);
  EXPECT_EQ(r.workers[0].report.more["period"], 1);
  EXPECT_EQ(r.workers[0].report.exchanges, 20);
}

TEST(AutoPeriod, AnEndlessExchangeIsMadeNowAndThen) {
  QuadraticJob job = automatic();
  job.compute_ns = {kMicro};
  job.steps = 10;
  const QuadraticRun r = run_well(job);
  EXPECT_EQ(r.workers[0].report.more["period"], AutoPeriod::kLongest);
  EXPECT_EQ(r.workers[2].report.exchanges, 1);
}

TEST(AutoPeriod, WithoutLettersItIsRefused) {
  QuadraticJob job = automatic();
  job.letters = false;
  const QuadraticRun r = testing::run(job);
  EXPECT_EQ(r.workers[0].status.code(), Code::kInvalid);
  EXPECT_THAT(r.workers[0].status.message(), ::testing::HasSubstr("parallel.period = 0"));
}

TEST(AutoPeriod, AKilledWorkerIsNamedToTheOthers) {
  QuadraticJob job = automatic();
  runtime::FaultSpec kill;
  kill.runtime = 0;
  kill.at = 50 * kMilli;
  job.world.faults = {kill};
  const QuadraticRun r = testing::run(job);
  for (const std::size_t w : {1U, 2U}) {
    EXPECT_EQ(r.workers[w].status.code(), Code::kPeerLost) << r.workers[w].status.to_string();
    EXPECT_EQ(r.workers[w].status.context().peer, 0);
  }
}

}  // namespace
}  // namespace trireme::agree
