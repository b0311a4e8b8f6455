// A thousand phantom ranks of a pipeline in one thread.
#include <gtest/gtest.h>

#include "tests/train/mesh/mesh_jobs.h"

namespace trireme::train::testing {
namespace {

TEST(PipelineScaleOfAThousand, RanksTakeAStepOfAGptOf96Layers) {
  const start::SimulateReport report = simulate_gpt(96, "data=16,stage=8,model=8");
  ASSERT_EQ(report.ranks.size(), 1024U);
  ASSERT_TRUE(report.ranks[0].ok());
  const record::Summary& s = *report.ranks[0];
  for (const char* axis : {"data", "stage", "model"}) EXPECT_GT(s.bytes_by_axis.at(axis), 0) << axis;
}

}  // namespace
}  // namespace trireme::train::testing
