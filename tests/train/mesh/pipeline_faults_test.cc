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

INSTANTIATE_TEST_SUITE_P(Timetables, PipelineFaults,
                         ::testing::Values("gpipe", "1f1b", "interleaved", "zb-h1"), [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace trireme::train::testing
