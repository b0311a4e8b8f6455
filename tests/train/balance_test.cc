// Work follows speed, in whole logical shards, and the weights do not notice.
#include "trireme/train/balance.h"

#include <gtest/gtest.h>

#include "tests/train/small_jobs.h"
#include "tests/train/tiny_jobs.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"

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

job::Job on_mesh(job::Job job, const std::string& mesh) {
  job.parallel.workers = 1;  // not given
  job.parallel.mesh = mesh;
  job.options.set(job::kStyle.name, "tensor");
  job.train.logical_tiles = 2;
  job::take_workers_of_mesh(job, false);
  return job;
}

// Machines of one core; the last one is `factor` times slower.
start::SimulateReport run_with_slow(const job::Job& job, double factor) {
  start::SimulateOptions options;
  options.job = job;
  options.machine.cores = 1;
  options.machine.flops_per_second_per_core = 1e6;
  options.cluster.topology = cost::Topology::single_switch(static_cast<int>(options.job.parallel.workers),
                                                           options.machine, options.link);
  options.cluster.topology.machines.back().speed = 1 / factor;
  return start::simulate_training(options, tiny_pictures(64, 4));
}

double end_of(const job::Job& job, double factor) {
  const start::SimulateReport report = run_with_slow(job, factor);
  EXPECT_TRUE(report.ranks[0].ok()) << report.ranks[0].status().to_string();
  return to_seconds(report.ended_at[0]);
}
double end_of(std::int64_t steps, double factor) { return end_of(eight_shards(steps), factor); }

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
    for (const auto& rank : run_with_slow(eight_shards(kTwoLooks), factor).ranks) {
      ASSERT_TRUE(rank.ok()) << rank.status().to_string();
      EXPECT_EQ(rank->parameters_sha256, expected) << factor;
    }
}

// All tiles of a shard move together: the other rank of the slow replica has less to do too.
TEST(Balance, AReplicaIsAsSlowAsItsSlowestRank) {
  const auto end = [](std::int64_t steps) {
    return end_of(on_mesh(eight_shards(steps), "data=2,model=2"), 3);
  };
  const double before = (end(kBalanceSteps) - end(kBalanceSteps / 2)) / (kBalanceSteps / 2);
  const double after = (end(kTwoLooks) - end(kBalanceSteps + 4)) / kBalanceSteps;
  EXPECT_LT(after, 0.8 * before);
  const std::string expected =
      hash_virtual(on_mesh(eight_shards(kTwoLooks), "data=1,model=2"), tiny_pictures(64, 4));
  ASSERT_EQ(expected.size(), 64U);
  for (const auto& rank : run_with_slow(on_mesh(eight_shards(kTwoLooks), "data=2,model=2"), 3).ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    EXPECT_EQ(rank->parameters_sha256, expected);
  }
}

TEST(Balance, EqualWorkersKeepTheirShards) {
  const double before = (end_of(kBalanceSteps, 1) - end_of(kBalanceSteps / 2, 1)) / (kBalanceSteps / 2);
  const double after = (end_of(kTwoLooks, 1) - end_of(kBalanceSteps + 4, 1)) / kBalanceSteps;
  EXPECT_NEAR(after, before, 0.05 * before);
}

}  // namespace
}  // namespace trireme::train
