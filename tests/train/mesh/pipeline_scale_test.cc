// Pipelines of many phantom ranks.
#include <gtest/gtest.h>

#include "tests/train/mesh/mesh_jobs.h"

namespace trireme::train::testing {
namespace {

TEST(PipelineScale, AStepOfAGptOnThreeAxesTakesWhatItsTimetableSays) {
  const start::SimulateReport report = simulate_gpt(8, "data=4,stage=4,model=4");
  ASSERT_EQ(report.ranks.size(), 64U);
  ASSERT_TRUE(report.ranks[0].ok());
  const record::Summary& s = *report.ranks[0];
  EXPECT_GT(s.compute_seconds, 0);
  EXPECT_NEAR(s.measured_step_seconds / s.predicted_step_seconds, 1, 0.35);
  for (const char* axis : {"data", "stage", "model"}) EXPECT_GT(s.bytes_by_axis.at(axis), 0) << axis;
}

}  // namespace
}  // namespace trireme::train::testing
