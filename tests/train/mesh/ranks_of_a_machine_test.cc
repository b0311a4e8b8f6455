// Workers that share a virtual machine: its cores, its link, and memory between them.
#include <gtest/gtest.h>

#include "tests/train/small_jobs.h"
#include "tests/train/tiny_jobs.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"

namespace trireme::train {
namespace {

start::SimulateOptions on_machines(int ranks_per_machine, bool phantom, const char* mesh = "data=3,model=2") {
  start::SimulateOptions options;
  options.job = testing::tiny_job();
  options.job.train.logical_shards = 0;
  options.job.parallel.mesh = mesh;
  options.job.options.set(job::kStyle.name, "tensor");
  job::take_workers_of_mesh(options.job, false);
  options.machine.cores = 4;
  options.link.latency_ns = 100 * kMicro;
  options.ranks_per_machine = ranks_per_machine;
  options.phantom = phantom;
  return options;
}

// One replica: its ranks exchange activations only.
double step_seconds(int ranks_per_machine) {
  const start::SimulateReport report =
      start::simulate_training(on_machines(ranks_per_machine, true, "data=1,model=2"), nullptr);
  for (const auto& rank : report.ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
  return report.ranks[0].ok() ? report.ranks[0]->measured_step_seconds : 0;
}

TEST(RanksOfAMachine, HaveNeighborsOnItAndServersElsewhere) {
  start::SimulateOptions options = on_machines(4, true);
  options.job.parallel.agreement = "downpour";
  options.job.parallel.servers = 2;
  const int expected[] = {0, 0, 0, 0, 1, 1, 2, 3};
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(machine_of(options, rank), expected[rank]) << rank;
  EXPECT_EQ(num_machines(options), 4);
}

TEST(RanksOfAMachine, ExchangeActivationsWithoutTheNetwork) {
  const double apart = step_seconds(1), together = step_seconds(2);
  EXPECT_GT(together, 0);
  EXPECT_LT(together, 0.5 * apart);
}

TEST(RanksOfAMachine, GiveTheBitsOfRanksWithMachinesOfTheirOwn) {
  const auto data = testing::tiny_pictures(120, 40);
  std::string expected;
  for (const int each : {1, 2, 3, 6}) {
    start::SimulateOptions options = on_machines(each, false);
    options.job.train.shard_threads = 1;
    const start::SimulateReport report = start::simulate_training(options, data);
    ASSERT_TRUE(report.ranks[0].ok()) << report.ranks[0].status().to_string();
    if (expected.empty()) expected = report.ranks[0]->parameters_sha256;
    EXPECT_EQ(report.ranks[0]->parameters_sha256, expected) << each;
  }
  EXPECT_EQ(expected.size(), 64U);
}

}  // namespace
}  // namespace trireme::train
