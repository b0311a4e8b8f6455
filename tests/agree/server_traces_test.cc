// Two and three workers over real servers in virtual time, value by value. Rates and curvatures are powers of
// two, so that everything is exact; a message takes some hundredths of a step.
#include <gtest/gtest.h>

#include "tests/agree/with_servers.h"

namespace trireme::agree::testing {
namespace {

using Histogram = std::map<std::int64_t, std::int64_t>;

// f_i(x) = (x - b_i)^2 / 2 from 0 with rate 1/2.
QuadraticJob two_workers(const char* rule, std::vector<float> b, std::vector<TimeNs> compute_ns,
                         std::vector<std::int64_t> steps) {
  QuadraticJob job;
  job.rule = rule;
  job.workers = static_cast<int>(b.size());
  job.b = std::move(b);
  job.compute_ns = std::move(compute_ns);
  job.steps_of = std::move(steps);
  return job;
}

float agreed(const QuadraticRun& run) {
  for (const QuadraticWorker& w : run.workers) EXPECT_EQ(w.settled.back(), run.workers[0].settled.back());
  return run.workers[0].settled.back().at(0);
}

TEST(ServerTraces, BspTakesTheMeanOfAllWorkersHoweverFastTheyAre) {
  for (int servers = 1; servers <= 3; ++servers) {
    QuadraticJob job = two_workers("bsp-server", {8, 0}, {kMilli, 4 * kMilli}, {3, 3});
    job.bucket_elems = {2, 1};
    job.settle_every = 1;
    Counts counts;
    add_servers(job, servers, &counts);
    const QuadraticRun result = run_well(job);
    // 0 -> 2 -> 3 -> 3.5: halfway to the mean of 8 and 0 every time.
    for (const QuadraticWorker& w : result.workers) {
      ASSERT_EQ(w.settled.size(), 3U);
      EXPECT_EQ(w.settled[0], (Vector{2, 2, 2}));
      EXPECT_EQ(w.settled[1], (Vector{3, 3, 3}));
      EXPECT_EQ(w.settled[2], (Vector{3.5F, 3.5F, 3.5F}));
    }
    for (const auto& c : counts) EXPECT_EQ(c.dropped + c.repeated, 0);
  }
}

TEST(ServerTraces, SspLetsTheFastWorkerGoOneClockAheadAndNoFurther) {
  QuadraticJob job = two_workers("ssp", {8, -4}, {kMilli, 10 * kMilli}, {3, 2});
  job.options.own.set("staleness", 1);
  add_servers(job, 1);
  const QuadraticRun result = run_well(job);
  // A push moves x by -1/4 of its gradient. Worker 0: 0 -> 2 (1 ms) -> 3.5 (2 ms), then it waits for worker
  // 1's clock 0: -1 (10 ms) = 2.5. Both read that. Worker 0: + 5.5/4 = 3.875 (11 ms); worker 1: - 6.5/4 =
  // 2.25 (20 ms).
  EXPECT_EQ(agreed(result), 2.25F);
  const QuadraticWorker& fast = result.workers[0];
  EXPECT_EQ(fast.report.staleness, (Histogram{{1, 2}}));
  EXPECT_EQ(result.workers[1].report.staleness, (Histogram{{0, 1}}));
  EXPECT_LT(fast.ended[1], 3 * kMilli);
  EXPECT_GT(fast.ended[2], 10 * kMilli);
  EXPECT_GT(fast.report.more["waited_seconds"].get<double>(), 0.007);
}

TEST(ServerTraces, DownpourAppliesAGradientOfOldWeightsAsItIs) {
  QuadraticJob job = two_workers("downpour", {8, -4}, {kMilli, 3500 * kMicro}, {3, 1});
  Counts counts;
  add_servers(job, 1, &counts);
  const QuadraticRun result = run_well(job);
  // A push moves x by -1/4 of its gradient. Worker 0: 0 -> 2 -> 3.5 -> 4.625 (3 ms). Worker 1's gradient at 0
  // is 4: - 1 = 3.625 (3.5 ms), three updates late.
  EXPECT_EQ(agreed(result), 3.625F);
  EXPECT_EQ(result.workers[0].report.staleness, (Histogram{{0, 3}}));
  EXPECT_EQ(result.workers[1].report.staleness, (Histogram{{3, 1}}));
  EXPECT_EQ(counts[0].staleness, (Histogram{{0, 3}, {3, 1}}));
}

TEST(ServerTraces, StalenessAwareDividesTheRateByTheStaleness) {
  QuadraticJob job = two_workers("staleness-aware", {8, -4}, {kMilli, 3500 * kMicro}, {3, 1});
  Counts counts;
  add_servers(job, 1, &counts);
  const QuadraticRun result = run_well(job);
  EXPECT_EQ(agreed(result), 7.0F - 0.5F / 3.0F * 4.0F);
  EXPECT_EQ(counts[0].staleness, (Histogram{{0, 3}, {3, 1}}));
}

TEST(ServerTraces, SoftMakesOneUpdateOfTheMeanOfAsManyPushesAsItGathers) {
  QuadraticJob job = two_workers("soft", {8, -12}, {kMilli, 3500 * kMicro}, {3, 1});
  job.options.own.set("gather", 2);
  Counts counts;
  add_servers(job, 1, &counts);
  const QuadraticRun result = run_well(job);
  // Worker 0 at 0 twice: -8, -8 make 4 (2 ms). Then its -4 waits for worker 1's 12, of 0: mean 4: 2 (3.5 ms).
  EXPECT_EQ(agreed(result), 2);
  EXPECT_EQ(counts[0].updates, 2);
  EXPECT_EQ(counts[0].staleness, (Histogram{{0, 3}, {1, 1}}));
}

TEST(ServerTraces, LateDropsWhatComesAfterTheClockHasClosedAndTheLateWorkerJumps) {
  QuadraticJob job = two_workers("late", {8, 0, -100}, {kMilli, 1100 * kMicro, 3800 * kMicro}, {4, 4, 2});
  job.options.own.set("fraction", 0.6);
  Counts counts;
  add_servers(job, 1, &counts);
  const QuadraticRun result = run_well(job);
  // Workers 0 and 1 close every clock: 0 -> 2 -> 3 -> 3.5 -> 3.75. Worker 2's pushes come for closed clocks.
  EXPECT_EQ(agreed(result), 3.75F);
  EXPECT_EQ(counts[0].dropped, 2);
  EXPECT_EQ(counts[0].updates, 4);
  EXPECT_EQ(result.workers[2].report.more["clocks_skipped"], 2);
  EXPECT_EQ(result.workers[0].report.more["clocks_skipped"], 0);
}

TEST(ServerTraces, ElasticAveragingOverServersTakesBothLinesFromTheOldValues) {
  QuadraticJob job = two_workers("easgd-async", {8, -8}, {kMilli, 10 * kMilli}, {3, 2});
  job.options.own.set("period", 1);
  job.options.own.set("elasticity", 0.25);
  Counts counts;
  add_servers(job, 1, &counts);
  const QuadraticRun result = run_well(job);
  // Worker 0: 4; 6 - (4 - 0)/4 = 5, c = 1; 6.5 - (5 - 1)/4 = 5.5, c = 2. Worker 1: -4; -6 + (4 + 2)/4 = -4.5,
  // c = 2 - (4 + 2)/4 = 0.5.
  EXPECT_EQ(result.workers[0].trace, (std::vector<Vector>{{4}, {5}, {5.5F}}));
  EXPECT_EQ(result.workers[1].trace, (std::vector<Vector>{{-4}, {-4.5F}}));
  EXPECT_EQ(agreed(result), 0.5F);
  EXPECT_EQ(counts[0].updates, 3);
}

TEST(ServerTraces, ElasticAveragingTravelsWhileTheStepComputes) {
  QuadraticJob job = two_workers("easgd-async", {8, 8}, {10 * kMilli, 10 * kMilli}, {6, 6});
  job.options.own.set("period", 1);
  job.link.latency_ns = 4 * kMilli;
  add_servers(job, 1);
  const QuadraticRun result = run_well(job);
  // A round trip of 8 ms is hidden behind 10 ms of compute.
  for (const QuadraticWorker& w : result.workers)
    for (std::size_t s = 1; s < w.ended.size(); ++s) EXPECT_LT(w.ended[s] - w.ended[s - 1], 11 * kMilli);
}

TEST(ServerTraces, DownpourWithMoreRoundsInFlightHidesTheWayToTheServers) {
  std::vector<TimeNs> ended;
  for (const std::int64_t in_flight : {1, 3}) {
    QuadraticJob job = two_workers("downpour", {8, 8}, {10 * kMilli, 10 * kMilli}, {20, 20});
    job.options.own.set("in_flight", in_flight);
    job.learning_rate = 0.25F;
    job.link.latency_ns = 10 * kMilli;
    add_servers(job, 1);
    const QuadraticRun result = run_well(job);
    EXPECT_NEAR(agreed(result), 8, 0.5);
    ended.push_back(result.workers[0].ended.back());
  }
  EXPECT_GT(ended[0], 20 * 30 * kMilli);  // every step waits for its round trip
  EXPECT_LT(ended[1], 20 * 12 * kMilli);
}

TEST(ServerTraces, DownpourWarmsUpWithOneReplicaAlone) {
  QuadraticJob job = two_workers("downpour", {8, 8}, {kMilli, kMilli}, {6, 2});
  job.options.own.set("warm_start_steps", 3);
  float first_read = -1;
  job.gradient = [&first_read](const GradientAt& at) {
    if (at.worker == 1 && at.step == 0) first_read = at.x;
    return at.x - 8.0F;
  };
  add_servers(job, 1);
  const QuadraticRun result = run_well(job);
  EXPECT_EQ(first_read, 4.625F);  // after three steps of worker 0: 2, 3.5, 4.625
  EXPECT_GT(result.workers[1].ended[0], result.workers[0].ended[2]);
}

TEST(ServerTraces, AWarmStartThatAMeetingCutsShortHoldsNobodyUp) {
  QuadraticJob job = two_workers("downpour", {8, 8}, {kMilli, kMilli}, {4, 4});
  job.options.own.set("warm_start_steps", 100);
  job.settle_every = 2;
  add_servers(job, 1);
  const QuadraticRun result = run_well(job);
  EXPECT_GT(result.workers[1].ended[0], result.workers[0].ended[1]);
  EXPECT_GT(agreed(result), 6);
}

}  // namespace
}  // namespace trireme::agree::testing
