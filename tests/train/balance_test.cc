// Work follows speed, in whole logical shards, and the weights do not notice.
#include "trireme/train/balance.h"

#include <gtest/gtest.h>

#include "tests/train/small_jobs.h"
#include "tests/train/tiny_jobs.h"

namespace trireme::train {
namespace {

using testing::hash_virtual;
using testing::tiny_pictures;

constexpr std::int64_t kTwoLooks = 2 * kBalanceSteps + 4;

job::Job eight_shards(std::int64_t steps) {
  job::Job job = testing::tiny_job();
  job.train.logical_shards = 8;
  job.train.batch = 16;
  job.train.steps = steps;
  job.train.eval_steps = job.train.checkpoint_steps = 1000;
  job.parallel.workers = 2;
  return job;
}

// Two machines of one core; the second one is `factor` times slower.
start::SimulateReport run_with_slow(std::int64_t steps, double factor) {
  start::SimulateOptions options;
  options.job = eight_shards(steps);
  options.machine.cores = 1;
  options.machine.flops_per_second_per_core = 1e6;
  options.cluster.topology = cost::Topology::single_switch(2, options.machine, options.link);
  options.cluster.topology.machines[1].speed = 1 / factor;
  return start::simulate_training(options, tiny_pictures(64, 4));
}

double end_of(std::int64_t steps, double factor) {
  const start::SimulateReport report = run_with_slow(steps, factor);
  EXPECT_TRUE(report.ranks[0].ok()) << report.ranks[0].status().to_string();
  return to_seconds(report.ended_at[0]);
}

TEST(Balance, AWorkerThreeTimesSlowerGetsFewerShardsAndStepsGetShorter) {
  // Even runs: 4 shards of the slow one take 12 units. Balanced: 6 of the fast one and 2 of the slow one
  // take 6.
  const double before = (end_of(kBalanceSteps, 3) - end_of(kBalanceSteps / 2, 3)) / (kBalanceSteps / 2);
  const double after = (end_of(kTwoLooks, 3) - end_of(kBalanceSteps + 4, 3)) / kBalanceSteps;
  EXPECT_LT(after, 0.6 * before);
  EXPECT_GT(after, 0.4 * before);
}

TEST(Balance, WeightsDoNotDependOnWhoHasWhichShards) {
  job::Job job = eight_shards(kTwoLooks);
  job.parallel.workers = 1;
  const std::string expected = hash_virtual(job, tiny_pictures(64, 4));
  ASSERT_EQ(expected.size(), 64U);
  for (const double factor : {1.0, 3.0, 20.0})
    for (const auto& rank : run_with_slow(kTwoLooks, factor).ranks) {
      ASSERT_TRUE(rank.ok()) << rank.status().to_string();
      EXPECT_EQ(rank->parameters_sha256, expected) << factor;
    }
}

TEST(Balance, EqualWorkersKeepTheirShards) {
  const double before = (end_of(kBalanceSteps, 1) - end_of(kBalanceSteps / 2, 1)) / (kBalanceSteps / 2);
  const double after = (end_of(kTwoLooks, 1) - end_of(kBalanceSteps + 4, 1)) / kBalanceSteps;
  EXPECT_NEAR(after, before, 0.05 * before);
}

}  // namespace
}  // namespace trireme::train
