// As pipeline_faults_test.cc, from two hundred seeds per timetable.
#include <gtest/gtest.h>

#include "tests/train/mesh/pipeline_faults.h"

namespace trireme::train::testing {
namespace {

TEST(PipelineFaultsFromManySeeds, EndInOneErrorOrTheSameBits) {
  for (const char* kind : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2"}) {
    const HealthyRun healthy = healthy_run(kind);
    ASSERT_EQ(healthy.hash.size(), 64U) << kind;
    for (std::uint64_t seed = 1000; seed < 1200 && !HasFailure(); ++seed) {
      SCOPED_TRACE(kind);
      const PipelineFault fault = draw_pipeline_fault(seed, healthy);
      expect_one_end(healthy, fault, run_with_fault(healthy, fault, seed), seed);
    }
  }
}

}  // namespace
}  // namespace trireme::train::testing
