// A rank of a pipeline that is killed, stands still, is slow or calls the wrong thing at any moment: all
// ranks end with one error that names it, or with the bits of a run that nothing happened to.
#include "tests/train/mesh/pipeline_faults.h"

#include <gtest/gtest.h>

namespace trireme::train::testing {
namespace {

class PipelineFaults : public ::testing::TestWithParam<const char*> {};

TEST_P(PipelineFaults, EndInOneErrorOrTheSameBitsFromFiftySeeds) {
  const HealthyRun healthy = healthy_run(GetParam());
  ASSERT_EQ(healthy.hash.size(), 64U);
  for (std::uint64_t seed = 2; seed <= 51 && !HasFailure(); ++seed) {
    const PipelineFault fault = draw_pipeline_fault(seed, healthy);
    expect_one_end(healthy, fault, run_with_fault(healthy, fault, seed), seed);
  }
}

// Replicas wait for each other's weights.
TEST(PipelineFaultsOfDividedStages, EndInOneErrorOrTheSameBits) {
  const HealthyRun healthy = healthy_run("1f1b", 3);
  ASSERT_EQ(healthy.hash, healthy_run("1f1b").hash);
  for (std::uint64_t seed = 2; seed <= 41 && !HasFailure(); ++seed) {
    const PipelineFault fault = draw_pipeline_fault(seed, healthy);
    expect_one_end(healthy, fault, run_with_fault(healthy, fault, seed), seed);
  }
}

// Two replicas of two stages: sums are between two ranks each, of which the lower is wrong here. From the
// second step on both know what the step before had in its place, so it is not the higher one that is named.
TEST(PipelineFaultsOfPairs, AWrongCallBetweenTwoRanksIsTheOneThatIsNew) {
  HealthyRun healthy{pipeline_job("1f1b"), tiny_pictures(144, 8), "", 0};
  healthy.job.parallel.mesh = "data=2,stage=2";
  healthy.job.parallel.workers = 4;
  int num_of_sums = 0;
  for (int rank = 0; rank < 2; ++rank)
    for (std::uint64_t index = 31; index <= 80; ++index) {
      PipelineFault fault;
      fault.spec.kind = runtime::FaultSpec::Kind::kMiscall;
      fault.spec.runtime = rank;
      fault.spec.site = "collective";
      fault.spec.index = index;
      const start::SimulateReport report = run_with_fault(healthy, fault, 1);
      for (const auto& ended : report.ranks) {
        ASSERT_FALSE(ended.ok()) << "rank " << rank << ", call " << index;
        const ErrorContext context = ended.status().context();
        if (context.operation.ends_with("step 0")) continue;  // nothing was before
        EXPECT_EQ(context.peer.value_or(-1), rank) << "call " << index << ": " << ended.status().message();
        if (context.operation.find("bucket") != std::string::npos) ++num_of_sums;
      }
    }
  EXPECT_GE(num_of_sums, 2 * 4 * 4) << "or there is nothing to see";
}

INSTANTIATE_TEST_SUITE_P(Timetables, PipelineFaults,
                         ::testing::Values("gpipe", "1f1b", "interleaved", "zb-h1"), [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace trireme::train::testing
