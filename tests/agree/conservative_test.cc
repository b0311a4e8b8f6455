#include "trireme/agree/agree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/agree/quadratic.h"
#include "trireme/base/rng.h"

namespace trireme::agree {
namespace {

using ::testing::ElementsAre;
using testing::GradientAt;
using testing::QuadraticJob;
using testing::QuadraticRun;
using testing::run_well;
using testing::Vector;

QuadraticJob two_workers(std::int64_t period, std::int64_t steps) {
  QuadraticJob job = testing::two_workers_from_eight("conservative", period, steps);
  job.options.own.set("proximity", 0.5);
  return job;
}

TEST(Conservative, TwoWorkersFollowTheTraceComputedByHand) {
  // Around 8: worker 0 has gradients 8 and 4 + (4 - 8) / 2 = 2, worker 1 has 4 and 2 + (6 - 8) / 2 = 1: x = 3
  // and 5.5, mean 4.25. Around 4.25 the third step has no pull yet.
  const QuadraticRun r = run_well(two_workers(2, 3));
  EXPECT_THAT(r.workers[0].trace, ElementsAre(Vector{4}, Vector{4.25}, Vector{2.125}));
  EXPECT_THAT(r.workers[1].trace, ElementsAre(Vector{6}, Vector{4.25}, Vector{4.125}));
  for (const auto& w : r.workers) {
    EXPECT_THAT(w.settled, ElementsAre(Vector{3.125}));
  }
  EXPECT_EQ(r.workers[0].report.more.dump(), R"({"outer_steps":1,"period":2,"proximity":0.5})");
  EXPECT_TRUE(r.workers[1].report.more.empty()) << "reports are added up";
}

TEST(Conservative, WithoutProximityItIsAveraging) {
  QuadraticJob job = two_workers(3, 10);
  job.learning_rate = 0.3F;
  job.options.own.set("proximity", 0);
  const QuadraticRun free = run_well(job);
  job.rule = "averaging";
  const QuadraticRun averaged = run_well(job);
  for (std::size_t w = 0; w < 2; ++w) {
    EXPECT_EQ(free.workers[w].trace, averaged.workers[w].trace);
    EXPECT_EQ(free.workers[w].settled, averaged.workers[w].settled);
  }
}

TEST(Conservative, ReplicasStayCloserToEachOtherTheStrongerThePull) {
  float last = 1e9F;
  for (const double proximity : {0.0, 0.5, 1.0, 2.0}) {
    QuadraticJob job = two_workers(8, 7);
    job.learning_rate = 0.2F;
    job.options.own.set("proximity", proximity);
    const QuadraticRun r = run_well(job);
    const float apart = std::abs(r.workers[0].weights[0] - r.workers[1].weights[0]);
    EXPECT_LT(apart, last) << proximity;
    last = apart;
  }
}

TEST(Conservative, ThePullIsOnParametersOnly) {
  QuadraticJob job = two_workers(4, 3);
  job.bucket_elems = {2};
  job.parameter_elems = {1};
  const QuadraticRun r = run_well(job);
  EXPECT_EQ(r.workers[0].weights[1], 1) << "8 halved three times";
  EXPECT_GT(r.workers[0].weights[0], 1);
}

TEST(Conservative, ConvergesFromManySeedsWithTheSameBitsEverywhere) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Philox random(seed);
    std::vector<float> b;
    for (int w = 0; w < 4; ++w) b.push_back(4 * random.next_normal());
    QuadraticJob job;
    job.rule = "conservative";
    job.workers = 4;
    job.steps = 200;
    job.start = {5 * random.next_normal()};
    job.bucket_elems = {3, 2};
    job.learning_rate = 0.2F;
    job.options.own.set("proximity", 0.5);
    job.options.own.set("period", 1 + static_cast<std::int64_t>(seed % 5));
    job.gradient = [&](const GradientAt& at) {
      Philox noise(seed, (static_cast<std::uint64_t>(at.worker) << 40) | (at.elem << 32) |
                             static_cast<std::uint64_t>(at.step));
      const float fading = std::pow(0.9F, static_cast<float>(at.step));
      return at.x - b[static_cast<std::size_t>(at.worker)] + fading * noise.next_normal();
    };
    const QuadraticRun r = run_well(job);
    for (const auto& w : r.workers) {
      EXPECT_EQ(w.settled, r.workers[0].settled) << "seed " << seed;
      for (const float x : w.settled.at(0))
        EXPECT_NEAR(x, (b[0] + b[1] + b[2] + b[3]) / 4, 2e-2F) << "seed " << seed;
    }
  }
}

TEST(Conservative, APhantomRunTakesTheSameTimeAndTheSameRounds) {
  QuadraticJob job = two_workers(2, 6);
  job.bucket_elems = {100'000, 1'000};
  const QuadraticRun real = run_well(job);
  job.world.phantom = true;
  const QuadraticRun phantom = run_well(job);
  for (std::size_t w = 0; w < 2; ++w) {
    EXPECT_EQ(phantom.workers[w].report.exchanges, 3);
    EXPECT_EQ(phantom.workers[w].ended, real.workers[w].ended);
  }
}

TEST(Conservative, OptionsThatMakeNoSenseAreRefused) {
  const QuadraticRun zero = testing::run(two_workers(0, 1));
  EXPECT_THAT(zero.workers[0].status.message(), ::testing::HasSubstr("parallel.period: got 0"));
  QuadraticJob job = two_workers(1, 1);
  job.options.own.set("proximity", -1);
  const QuadraticRun negative = testing::run(job);
  EXPECT_EQ(negative.workers[1].status.code(), Code::kInvalid);
  EXPECT_THAT(negative.workers[1].status.message(), ::testing::HasSubstr("parallel.proximity: got -1"));
}

}  // namespace
}  // namespace trireme::agree
