// Stages on machines of different speed: who is slow has fewer segments.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/runtime/temp_dir.h"
#include "tests/train/mesh/mesh_jobs.h"
#include "tests/train/small_jobs.h"
#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"

namespace trireme::train::testing {
namespace {

constexpr int kStages = 4, kSlow = 1;

job::Job in_many_segments(job::Job job, int segments, int micro_batches) {
  job.parallel.mesh = "stage=4";
  job.options.set(job::kSegments.name, std::int64_t{segments});
  job.options.set(job::kMicroBatches.name, std::int64_t{micro_batches});
  job.train.logical_shards = 0;
  job::take_workers_of_mesh(job, false);
  return job;
}

// Sixteen equal blocks, phantom. `known`: the machine is slow, else it becomes slow as soon as it runs.
double step_seconds(bool known) {
  start::SimulateOptions options;
  options.phantom = true;
  job::Job job;
  job.model.name = "char-gpt";
  job.model.options = Json{{"width", 128}, {"layers", 16}, {"heads", 4}};
  job.data.kind = "text";
  job.data.path = "none.txt";
  job.train.steps = 1;
  job.train.batch = 64;
  options.job = in_many_segments(job, 16, 32);
  options.cluster.topology = cost::Topology::single_switch(kStages, options.machine, options.link);
  if (known) {
    options.cluster.topology.machines[kSlow].speed = 0.5;
  } else {
    runtime::FaultSpec slow;
    slow.kind = runtime::FaultSpec::Kind::kSlow;
    slow.runtime = kSlow;
    slow.at = 0;
    slow.factor = 2;
    options.faults = {slow};
  }
  const start::SimulateReport report = start::simulate_training(options, nullptr);
  for (const auto& rank : report.ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
  return report.ranks[0].ok() ? report.ranks[0]->measured_step_seconds : 0;
}

TEST(PipelineSpeeds, StagesBySpeedAreFasterThanEqualOnes) {
  const double equal = step_seconds(false), by_speed = step_seconds(true);
  ASSERT_GT(by_speed, 0);
  EXPECT_GE(equal / by_speed, 1.4);
}

// Segments of each stage, as plan.json has them.
std::vector<int> segments_of_stages(const std::string& text) {
  std::vector<int> counts;
  const Json plan = *parse_json(text, "plan.json");
  for (const Json& run : plan.at("owners").at("stage")) counts.push_back(run[1].get<int>());
  return counts;
}

job::Job twelve_layers() {
  job::Job job = tiny_job();
  const Json wide{{"kind", "dense"}, {"out", 36}, {"activation", "relu"}};
  job.model.layers = Json::array();
  for (int i = 0; i < 11; ++i) job.model.layers.push_back(wide);
  job.model.layers.push_back({{"kind", "classifier"}});
  return in_many_segments(job, 12, 4);
}

TEST(PipelineSpeeds, AreMeasuredAtTheStartAndChangeNoBits) {
  const auto data = tiny_pictures(48, 8);
  const job::Job job = twelve_layers();
  VirtualRuns equal;
  const record::Summary even = equal.train(job, data).summary();
  EXPECT_TRUE(even.finished);
  const std::vector<int> before = segments_of_stages(equal.read("run/plan.json"));
  runtime::FaultSpec slow;
  slow.kind = runtime::FaultSpec::Kind::kSlow;
  slow.runtime = kSlow;
  slow.at = 0;
  slow.factor = 4;
  VirtualRuns uneven({slow});
  const record::Summary by_speed = uneven.train(job, data).summary();
  EXPECT_EQ(by_speed.parameters_sha256, even.parameters_sha256);
  const std::vector<int> now = segments_of_stages(uneven.read("run/plan.json"));
  ASSERT_EQ(now.size(), std::size_t{kStages});
  EXPECT_LT(now[kSlow], before[kSlow]);
}

// More ranks than cores take turns, and the one that had to wait is not the slower one.
TEST(PipelineSpeeds, RanksOfOneHostAreTakenToBeAlike) {
  const auto data = tiny_pictures(48, 8);
  const runtime::TempDir dir;
  std::vector<std::vector<int>> counts;
  for (const double slow : {1.0, 8.0}) {
    start::InProcessOptions options;
    options.job = twelve_layers();
    options.data = data;
    options.run_dir = dir / fmt::format("run-{}", slow);
    std::filesystem::create_directories(options.run_dir);
    options.slow_factors = {1, slow, 1, 1};
    for (const auto& rank : start::train_in_process(options))
      ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    std::ifstream plan(options.run_dir + "/plan.json");
    counts.push_back(segments_of_stages({std::istreambuf_iterator<char>(plan), {}}));
  }
  ASSERT_EQ(counts[0].size(), std::size_t{kStages});
  EXPECT_EQ(counts[1], counts[0]);
}

}  // namespace
}  // namespace trireme::train::testing
