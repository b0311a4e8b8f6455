#include "trireme/agree/agree.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/agree/quadratic.h"

namespace trireme::agree {
namespace {

using testing::QuadraticJob;
using testing::QuadraticRun;
using testing::Vector;
using Trace = std::vector<Vector>;

QuadraticJob two_workers() {
  QuadraticJob job;
  job.rule = "decentralized";
  job.letters = true;
  job.workers = 2;
  job.steps = 4;
  job.start = {8};
  job.b = {0, 16};
  return job;
}

// Letters of a step come during the next one and are taken in before the one after.
TEST(Decentralized, UpdatesOfTheOtherAreAddedAsTheyCome) {
  const QuadraticRun run = run_well(two_workers());
  EXPECT_EQ(run.workers[0].trace, (Trace{{4}, {2}, {3}, {2.5F}}));
  EXPECT_EQ(run.workers[1].trace, (Trace{{12}, {14}, {13}, {13.5F}}));
  for (const auto& worker : run.workers) {
    EXPECT_EQ(worker.settled, (Trace{{8}}));  // 8 - (4 + 2 + 3 + 2.5) + (4 + 2 + 3 + 2.5)
    EXPECT_EQ(worker.report.exchanges, 4);
    EXPECT_EQ(worker.report.more["updates_sent"], 4);
  }
}

TEST(Decentralized, AFastWorkerGoesOnAtItsOwnSpeed) {
  QuadraticJob job = two_workers();
  job.steps_of = {4, 2};
  job.compute_ns = {kMilli, 2500 * kMicro};
  const QuadraticRun run = run_well(job);
  EXPECT_EQ(run.workers[0].trace, (Trace{{4}, {2}, {1}, {2.5F}}));
  EXPECT_EQ(run.workers[1].trace, (Trace{{12}, {11}}));
  for (const auto& worker : run.workers) EXPECT_EQ(worker.settled, (Trace{{7.5F}}));
  EXPECT_LT(run.workers[0].ended[3], 4100 * kMicro);  // never waited
  const std::map<std::int64_t, std::int64_t> two_behind{{2, 2}}, fresh{{0, 4}};
  EXPECT_EQ(run.workers[0].report.staleness, two_behind);
  EXPECT_EQ(run.workers[1].report.staleness, fresh);
}

TEST(Decentralized, AnUpdateHoldsTheChangesOfSeveralSteps) {
  QuadraticJob job = two_workers();
  job.options.own.set("push_steps", 2);
  job.steps = 5;
  const QuadraticRun run = run_well(job);
  // 8 4 2, then 1 (the others' first update of +6 comes meanwhile), then (1 + 6) / 2, then half of that: the
  // second one comes after its begin.
  EXPECT_EQ(run.workers[0].trace, (Trace{{4}, {2}, {1}, {3.5F}, {1.75F}}));
  EXPECT_EQ(run.workers[0].report.more["updates_sent"], 3);  // the last by finish()
  EXPECT_EQ(run.workers[0].settled, run.workers[1].settled);
  EXPECT_EQ(run.workers[0].settled, (Trace{{8}}));
}

TEST(Decentralized, AChangeThatFindsTheLinkFullTravelsWithTheNextUpdate) {
  QuadraticJob job = two_workers();
  job.bucket_elems = {25000, 25000};
  job.steps = 40;
  job.link.bytes_per_second = 20e6;  // an update takes ten steps
  job.options.own.set("staleness", 1000);
  const QuadraticRun run = run_well(job);
  for (const auto& worker : run.workers) {
    EXPECT_LT(worker.report.more["updates_sent"].get<int>(), 10);
    EXPECT_GT(worker.report.more["updates_merged"].get<int>(), 20);
    EXPECT_LT(worker.ended.back(), 45 * kMilli);
    EXPECT_NEAR(worker.settled[0][0], 8, 1e-4);
    EXPECT_NEAR(worker.settled[0][49999], 8, 1e-4);
  }
}

// Worker 1 takes 20 steps of worker 0 for one of its own.
QuadraticJob uneven_workers(std::int64_t staleness) {
  QuadraticJob job = two_workers();
  job.steps_of = {10, 2};
  job.compute_ns = {kMilli, 20 * kMilli};
  job.options.own.set("staleness", staleness);
  return job;
}

TEST(Decentralized, AWorkerWaitsWhenAPeerHasBeenSilentForTooManySteps) {
  const QuadraticRun run = run_well(uneven_workers(4));
  EXPECT_LT(run.workers[0].ended[4], 6 * kMilli);
  EXPECT_GT(run.workers[0].ended[5], 20 * kMilli) << "the sixth step waits for the first update";
  EXPECT_LT(run.workers[0].ended[9], 26 * kMilli) << "and then goes on, whatever the clocks";
  EXPECT_GT(run.workers[0].report.more["waited_seconds"].get<double>(), 0.01);
  EXPECT_EQ(run.workers[1].report.more["waited_seconds"].get<double>(), 0);
  EXPECT_EQ(run.workers[0].settled, run.workers[1].settled);
}

TEST(Decentralized, WithALargeBoundNobodyWaits) {
  const QuadraticRun run = run_well(uneven_workers(1000));
  EXPECT_LT(run.workers[0].ended[9], 11 * kMilli);
}

TEST(Decentralized, WithSamplesOfTheirOwnNobodyIsFurtherAheadThanTheBound) {
  QuadraticJob job = two_workers();
  job.steps = 12;
  job.compute_ns = {kMilli, 3 * kMilli};
  for (const bool own : {true, false}) {
    job.options.own.set("staleness", 4);
    job.options.own_samples = own;
    const QuadraticRun run = run_well(job);
    const auto lead = run.workers[0].report.more["max_lead"].get<std::int64_t>();
    if (own) {
      EXPECT_LE(lead, 4);
    } else {
      EXPECT_GT(lead, 4) << "updates of the slow one come often enough";
    }
    EXPECT_EQ(run.workers[0].settled, run.workers[1].settled);
  }
}

// Who waits has sent everything before, so that nobody waits for somebody who waits.
TEST(Decentralized, RareUpdatesFullLinksAndTightBoundsDoNotLockUp) {
  for (const std::int64_t push_steps : {1, 4})
    for (const std::int64_t staleness : {0, 1, 3})
      for (const bool own : {true, false}) {
        QuadraticJob job = two_workers();
        job.workers = 3;
        job.b = {0, 16, 8};
        job.steps = 25;
        job.settle_every = 10;
        job.bucket_elems = {20'000};
        job.link.bytes_per_second = 20e6;  // an update takes four steps
        job.compute_ns = {kMilli, 2 * kMilli, 7 * kMilli};
        job.options.own.set("push_steps", push_steps);
        job.options.own.set("staleness", staleness);
        job.options.own_samples = own;
        const QuadraticRun run = run_well(job);
        EXPECT_EQ(run.workers[0].settled, run.workers[2].settled) << push_steps << " " << staleness;
      }
}

TEST(Decentralized, StatisticsMoveByTheMeanOfTheChanges) {
  QuadraticJob job = two_workers();
  job.bucket_elems = {2};
  job.parameter_elems = {1};
  job.steps = 1;
  job.b = {0, 32};
  const QuadraticRun run = run_well(job);
  // Changes of -4 and +12: their sum for the parameter, half of it for the statistic.
  EXPECT_EQ(run.workers[0].trace, (Trace{{4, 6}}));
  EXPECT_EQ(run.workers[1].trace, (Trace{{20, 14}}));
  for (const auto& worker : run.workers) EXPECT_EQ(worker.settled, (Trace{{16, 12}}));
}

// A noisy convex problem: every worker sees its own centre and noise of its own.
QuadraticJob noisy(std::uint64_t seed) { return testing::noisy_job("decentralized", 4, seed); }

TEST(Decentralized, ConvergesFromManySeedsAndReplicasAreEqualAfterEveryMeeting) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    QuadraticJob job = noisy(seed);
    job.settle_every = 100;
    const QuadraticRun run = run_well(job);
    std::int64_t used = 0;
    for (const auto& worker : run.workers) {
      ASSERT_EQ(worker.settled.size(), 3U);
      EXPECT_EQ(worker.settled, run.workers[0].settled) << "seed " << seed;
      // Before worker 0's model was taken over: the same updates, added in another order.
      EXPECT_LT(worker.report.more["settle_difference"].get<float>(), 1e-4) << "seed " << seed;
      for (const auto& [behind, number] : worker.report.staleness) used += number;
      for (std::size_t i = 0; i < 8; ++i)
        EXPECT_NEAR(worker.settled.back()[i], 1.5F + static_cast<float>(i), 0.2) << "seed " << seed;
    }
    EXPECT_GT(used, 3 * 4 * 250);
  }
}

TEST(Decentralized, TheOthersEndWithoutAWorkerThatDies) {
  QuadraticJob job = noisy(7);
  job.expendable = true;
  runtime::FaultSpec kill;
  kill.runtime = 3;
  kill.at = 100 * kMilli;
  job.world.faults = {kill};
  const QuadraticRun run = testing::run(job);
  EXPECT_TRUE(run.workers[3].dead);
  for (std::size_t w = 0; w < 3; ++w) {
    EXPECT_TRUE(run.workers[w].status.ok()) << run.workers[w].status.to_string();
    ASSERT_EQ(run.workers[w].settled.size(), 1U);
    EXPECT_EQ(run.workers[w].settled, run.workers[0].settled);
    for (std::size_t i = 0; i < 8; ++i)  // of the three that are left
      EXPECT_NEAR(run.workers[w].settled[0][i], 1 + static_cast<float>(i), 0.2);
  }
}

TEST(Decentralized, APhantomRunTakesTheSameTime) {
  QuadraticJob job = noisy(3);
  job.steps = 20;
  const QuadraticRun real = run_well(job);
  job.world.phantom = true;
  const QuadraticRun phantom = run_well(job);
  EXPECT_EQ(phantom.world.end_time, real.world.end_time);
  EXPECT_EQ(phantom.workers[1].report.exchanges, real.workers[1].report.exchanges);
}

TEST(Decentralized, OneWorkerAloneTakesPlainSteps) {
  QuadraticJob job = two_workers();
  job.workers = 1;
  job.b = {0};
  const QuadraticRun run = run_well(job);
  EXPECT_EQ(run.workers[0].trace, (Trace{{4}, {2}, {1}, {0.5F}}));
  EXPECT_EQ(run.workers[0].settled, (Trace{{0.5F}}));
}

}  // namespace
}  // namespace trireme::agree
