#include "trireme/agree/agree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/agree/quadratic.h"
#include "trireme/agree/mechanism/racy.h"
#include "trireme/base/rng.h"

namespace trireme::agree {
namespace {

using ::testing::ElementsAre;
using testing::GradientAt;
using testing::QuadraticJob;
using testing::QuadraticRun;
using testing::run_well;
using testing::Vector;

// Worker 0 goes half of its way to 0, worker 1 half of its way to 4, from where x was when they looked: the
// rate is that of a whole batch, and each of two workers has a half.
QuadraticJob two_workers() {
  QuadraticJob job;
  job.rule = "hogwild";
  job.letters = true;
  job.shared_weights = true;
  job.learning_rate = 1;
  job.start = {8};
  job.b = {0, 4};
  job.compute_ns = {10 * kMilli, 15 * kMilli};
  return job;
}

TEST(Hogwild, WorkersStepOnTheSameWeightsWithGradientsOfOlderOnes) {
  QuadraticJob job = two_workers();
  job.steps_of = {2, 1};
  // Both look at 8. At 10 ms worker 0 takes 4 off: 4. At 15 ms worker 1 takes 2 off, as seen from 8: 2. At 20
  // ms worker 0, which saw 4, takes 2 off: 0.
  const QuadraticRun r = run_well(job);
  EXPECT_THAT(r.workers[0].trace, ElementsAre(Vector{4}, Vector{0}));
  EXPECT_THAT(r.workers[1].trace, ElementsAre(Vector{2}));
  for (const auto& w : r.workers) EXPECT_THAT(w.settled, ElementsAre(Vector{0}));
  EXPECT_EQ(r.workers[0].report.exchanges, 2);
  EXPECT_EQ(r.workers[0].report.more.dump(), R"({"locked":false})");
}

TEST(Hogwild, SettlingTakesTheWeightsWhenEverybodyHasStopped) {
  QuadraticJob job = two_workers();
  job.steps = 1;
  job.compute_ns = {kMilli, 100 * kMilli};
  job.bucket_elems = {2, 1};
  const QuadraticRun r = run_well(job);
  for (const auto& w : r.workers)
    EXPECT_THAT(w.settled, ElementsAre(Vector{2, 2, 2})) << "worker 1's step is in";
}

TEST(Hogwild, LockedUpdatesFollowTheSameTraceAndTellTheirAge) {
  QuadraticJob job = two_workers();
  job.options.own.set("locked", true);
  job.bucket_elems = {1, 1};
  job.steps_of = {4, 2};
  const QuadraticRun r = run_well(job);
  // Times as above plus the letters' few dozen microseconds; worker 1 steps between 0's first and second, and
  // 0's third and fourth (30 ms: worker 0 first).
  EXPECT_THAT(r.workers[0].report.staleness, ElementsAre(std::pair{0, 1}, std::pair{1, 2}));
  EXPECT_THAT(r.workers[1].report.staleness, ElementsAre(std::pair{2, 1}));
  EXPECT_EQ(r.workers[0].trace[0], (Vector{4, 4}));
  EXPECT_EQ(r.workers[1].trace[0], (Vector{2, 2}));
  EXPECT_EQ(r.workers[0].trace[1], (Vector{0, 0}));
  EXPECT_EQ(r.workers[0].report.more.dump(), R"({"locked":true})");
}

TEST(Hogwild, ConvergesFromManySeedsLockedAndNot) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Philox random(seed);
    QuadraticJob job;
    job.rule = "hogwild";
    job.letters = true;
    job.shared_weights = true;
    job.options.own.set("locked", seed % 2 == 0);
    job.workers = 4;
    job.steps = 100;
    job.start = {5 * random.next_normal()};
    job.bucket_elems = {3, 2};
    job.learning_rate = 0.4F;
    job.compute_ns = {kMilli, kMilli + 100, 2 * kMilli, 4 * kMilli};
    job.gradient = [&](const GradientAt& at) {
      Philox noise(seed, (static_cast<std::uint64_t>(at.worker) << 40) | (at.elem << 32) |
                             static_cast<std::uint64_t>(at.step));
      return at.x - 3 + std::pow(0.9F, static_cast<float>(at.step)) * noise.next_normal();
    };
    const QuadraticRun r = run_well(job);
    for (const auto& w : r.workers) {
      EXPECT_EQ(w.settled, r.workers[0].settled) << "seed " << seed;
      for (const float x : w.settled.at(0)) EXPECT_NEAR(x, 3, 2e-2F) << "seed " << seed;
    }
  }
}

TEST(Hogwild, AWorkerThatDiesTakesNobodyAlongNorTheLock) {
  for (const bool locked : {false, true}) {
    QuadraticJob job = two_workers();
    job.workers = 3;
    job.b = {0};
    job.compute_ns = {kMilli};
    job.options.own.set("locked", locked);
    job.expendable = true;
    job.steps = 40;
    runtime::FaultSpec kill;
    kill.runtime = 2;
    kill.at = 10 * kMilli + 100 * kMicro;  // about when it has the lock
    job.world.faults = {kill};
    const QuadraticRun r = testing::run(job);
    EXPECT_TRUE(r.workers[2].dead);
    for (std::size_t w = 0; w < 2; ++w) {
      EXPECT_TRUE(r.workers[w].status.ok()) << r.workers[w].status.to_string();
      EXPECT_EQ(r.workers[w].trace.size(), 40U);
      EXPECT_EQ(r.workers[w].settled, r.workers[0].settled);
    }
  }
}

TEST(Hogwild, APhantomRunTakesItsSteps) {
  for (const bool locked : {false, true}) {
    QuadraticJob job = two_workers();
    job.options.own.set("locked", locked);
    job.bucket_elems = {1000};
    job.steps = 5;
    job.world.phantom = true;
    const QuadraticRun r = run_well(job);
    for (const auto& w : r.workers) EXPECT_EQ(w.report.exchanges, 5);
  }
}

TEST(Racy, LoadsStoresAndAddsWhatOneThreadExpects) {
  float x[3] = {1, 2, 3}, y[3] = {};
  racy_add(&x[1], 0.5F);
  racy_store(&x[2], racy_load(&x[0]) + 4);
  racy_read(x, y, 3);
  EXPECT_THAT(y, ElementsAre(1, 2.5F, 5));
}

}  // namespace
}  // namespace trireme::agree
