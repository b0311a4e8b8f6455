// Local replicas under servers: what they do step by step, that no gradient is lost, and that they find the
// minimum together.
#include <gtest/gtest.h>

#include "tests/agree/fake_servers.h"
#include "tests/agree/with_servers.h"
#include "trireme/base/rng.h"

namespace trireme::agree::testing {
namespace {

TEST(LocalReplicas, TwoReplicasStepOnTheSameWeightsAndPushTheSumOfTheirGradients) {
  FakeServers servers;
  QuadraticJob job;
  job.rule = "downpour";
  job.workers = 1;
  job.steps = 4;
  job.b = {8};
  job.options.own.set("local_replicas", 2);
  job.options.own.set("push_steps", 2);
  job.options.own.set("fetch_steps", 2);
  job.make_client = [&servers](runtime::Runtime&, comm::Group&) { return servers.client(); };
  const QuadraticRun result = run_well(job);
  // f(x) = (x - 8)^2 / 2 from 0, rate 1/2, so 1/4 for a local step. The first replica ends its steps at
  // 1, 2, 3, 4, the second at 2.5, 5, 7.5, 10:
  //   1: g = -8, x = 2.       2: g = -6, x = 3.5; both are pushed, w = 7, x = 7.
  //   2.5: g = -8 (of x = 0), x = 9.    3: g = -1 (of 7), x = 9.25; w = 7 + 9/2 = 11.5 = x.
  //   4: g = 3.5, x = 10.625. 5: g = 1 (of 9); w = 11.5 - 4.5/2 = 9.25 = x.
  //   7.5: g = 1.25, x = 8.9375.  10: g = 0.9375; w = 9.25 - 2.1875/2 = 8.15625 = x.
  Vector trace;
  for (const Vector& x : result.workers[0].trace) trace.push_back(x[0]);
  EXPECT_EQ(trace, (Vector{2, 7, 9, 11.5F, 10.625F, 9.25F, 8.9375F, 8.15625F}));
  EXPECT_EQ(result.workers[0].settled[0], (Vector{8.15625F}));
  const RuleReport& report = result.workers[0].report;
  EXPECT_EQ(report.exchanges, 4);
  EXPECT_EQ(report.more["fetches"], 4);
  EXPECT_EQ(report.more["local_replicas"], 2);
  EXPECT_EQ(report.more["steps_beside_others"], 5) << "those that began while the other one was at work";
}

// Two workers of three replicas each.
QuadraticJob two_by_three(std::int64_t push_steps, std::int64_t fetch_steps, std::int64_t in_flight) {
  QuadraticJob job;
  job.rule = "downpour";
  job.workers = 2;
  job.steps = 40;
  job.bucket_elems = {5, 3};
  job.compute_ns = {kMilli, 1700 * kMicro};
  job.options.own.set("local_replicas", 3);
  job.options.own.set("push_steps", push_steps);
  job.options.own.set("fetch_steps", fetch_steps);
  job.options.own.set("in_flight", in_flight);
  job.settle_every = 20;
  return job;
}

TEST(LocalReplicas, TheServersGetEveryGradientOnce) {
  for (const std::int64_t push_steps : {1, 4, 7})
    for (const std::int64_t in_flight : {1, 3}) {
      QuadraticJob job = two_by_three(push_steps, 3, in_flight);
      job.gradient = [](const GradientAt&) { return -1.0F; };
      Counts counts;
      add_servers(job, 2, &counts);
      const QuadraticRun result = run_well(job);
      const std::string what = fmt::format("push_steps {}, in_flight {}", push_steps, in_flight);
      // 2 x 3 replicas, 40 steps, each 1/2 of a batch at rate 1/2.
      for (const QuadraticWorker& w : result.workers)
        for (const float x : w.settled.back()) EXPECT_EQ(x, 60) << what;
      for (const auto& server : counts) EXPECT_EQ(server.dropped + server.repeated, 0) << what;
      // The others' pushes come between a replica's fetch and its push.
      EXPECT_GT(result.workers[0].report.staleness.rbegin()->first, 0) << what;
    }
}

TEST(LocalReplicas, FindTheMinimumFromManySeedsWithOneModelForAll) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    QuadraticJob job =
        two_by_three(static_cast<std::int64_t>(1 + seed % 3), 2, 1 + static_cast<int>(seed % 2));
    job.learning_rate = 0.1F;
    job.steps = 60;
    job.gradient = [seed](const GradientAt& at) {
      Philox random(seed, static_cast<std::uint64_t>(at.worker * 1000000 + at.step * 100) + at.elem);
      return at.x - 3.0F + 0.5F * (random.next_uniform() - 0.5F);
    };
    add_servers(job, 1 + static_cast<int>(seed % 3));
    const QuadraticRun result = run_well(job);
    for (const float x : result.workers[0].settled.back()) EXPECT_NEAR(x, 3, 0.25) << "seed " << seed;
    EXPECT_EQ(result.workers[0].settled, result.workers[1].settled) << "seed " << seed;
    EXPECT_GT(result.workers[1].report.more["steps_beside_others"], 100) << "seed " << seed;
  }
}

TEST(LocalReplicas, GoOnWhenAnotherWorkerDies) {
  QuadraticJob job = two_by_three(2, 2, 2);
  job.workers = 3;
  job.b = {3};
  job.learning_rate = 0.1F;
  job.compute_ns = {kMilli};
  job.expendable = true;
  runtime::FaultSpec fault;
  fault.runtime = 1;
  fault.at = 30 * kMilli;
  job.world.faults.push_back(fault);
  add_servers(job, 1);
  const QuadraticRun result = run_well(job);
  EXPECT_TRUE(result.workers[1].dead);
  for (const float x : result.workers[0].settled.back()) EXPECT_NEAR(x, 3, 0.25);
}

}  // namespace
}  // namespace trireme::agree::testing
