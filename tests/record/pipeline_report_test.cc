#include "trireme/record/pipeline_report.h"

#include <gtest/gtest.h>

#include "trireme/record/summary.h"

namespace trireme::record {
namespace {

PipelineReport report_of(std::vector<StageShare> shares) {
  PipelineReport report;
  report.kind = "1f1b";
  report.stages = 2;
  report.segments = 4;
  report.micro_batches = 8;
  report.weight_versions = {1, 1};
  take_stages(std::move(shares), report);
  return report;
}

TEST(PipelineReport, TheSlowestRankOfAStageCounts) {
  // Two replicas of two stages.
  const PipelineReport report =
      report_of({{0, 0.5, 1.0, 100}, {1, 0.25, 1.0, 50}, {0, 0.75, 1.0, 90}, {1, 0.5, 0.5, 60}});
  EXPECT_EQ(report.busy_seconds, (std::vector<double>{0.75, 0.5}));
  EXPECT_EQ(report.kept_bytes, (std::vector<double>{100, 60}));
  EXPECT_EQ(report.step_seconds, 1.0);
  EXPECT_EQ(report.bubble_fraction(), 1 - 1.25 / 2);
  EXPECT_EQ(bubble_fraction(report.of_ranks[1]), 0.75);
  EXPECT_EQ(report.slow_stage, 0);
}

TEST(PipelineReport, AStageIsSlowAboveFiveQuartersOfTheMedianOfTheOthers) {
  EXPECT_EQ(find_slow_stage({1, 1.25}), -1);
  EXPECT_EQ(find_slow_stage({1, 1.26}), 1);
  EXPECT_EQ(find_slow_stage({3, 1, 2, 1.5}), 0);
  EXPECT_EQ(find_slow_stage({1, 1.1, 1.2, 1.3}), -1);
  EXPECT_EQ(find_slow_stage({1}), -1);
  EXPECT_EQ(find_slow_stage({}), -1);
}

TEST(PipelineReport, IsInTheSummaryOfAPipelineAlone) {
  Summary s;
  s.workers = 2;
  s.per_worker.resize(2);
  EXPECT_FALSE(to_json(s).contains("pipeline"));
  EXPECT_FALSE(to_json(s)["per_worker"][0].contains("stage"));
  s.pipeline = report_of({{0, 0.5, 1, 100}, {1, 0.25, 1, 50}});
  s.mesh = "data=1,stage=2";
  Json json = to_json(s);
  EXPECT_EQ(json["mesh"], "data=1,stage=2");
  EXPECT_FALSE(json.contains("virtual_stages"));
  EXPECT_FALSE(json.contains("logical_tiles"));
  EXPECT_EQ(json["bubble_fraction"], 0.625);
  EXPECT_EQ(json["stage_seconds"], Json({0.5, 0.25}));
  EXPECT_EQ(json["kept_bytes_per_stage"], Json({100.0, 50.0}));
  EXPECT_EQ(json["weight_versions"], Json({1, 1}));
  EXPECT_EQ(json["slow_stage"], 0);
  EXPECT_EQ(json["per_worker"][1]["stage"], 1);
  EXPECT_EQ(json["per_worker"][1]["bubble_fraction"], 0.75);
  s.per_worker.resize(1);  // a worker of two ranks
  EXPECT_FALSE(to_json(s)["per_worker"][0].contains("stage"));
  s.pipeline = report_of({});
  json = to_json(s);
  EXPECT_EQ(json["micro_batches"], 8);
  EXPECT_FALSE(json.contains("bubble_fraction")) << "nobody has told";
}

}  // namespace
}  // namespace trireme::record
