// What a run tells of its stages: in its summary and in its trace.
#include <gtest/gtest.h>

#include <map>

#include "tests/train/small_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/prepare/prepare.h"
#include "trireme/prepare/stages.h"
#include "trireme/start/simulate.h"

namespace trireme::train {
namespace {

using testing::VirtualRuns;

// Eight layers that take as long as each other.
job::Job deep_job(const std::string& mesh, const std::string& kind = "1f1b") {
  job::Job job = testing::tiny_job();
  job.model.layers = *parse_json(R"([
      {"kind": "dense", "out": 16, "activation": "relu"}, {"kind": "dense", "out": 16, "activation": "relu"},
      {"kind": "dense", "out": 16, "activation": "relu"}, {"kind": "dense", "out": 16, "activation": "relu"},
      {"kind": "dense", "out": 16, "activation": "relu"}, {"kind": "dense", "out": 16, "activation": "relu"},
      {"kind": "dense", "out": 16, "activation": "relu"}, {"kind": "classifier"}])",
                                 "layers");
  job.train.batch = 32;
  job.train.logical_shards = 8;
  job.options.set(job::kSegments.name, std::int64_t{4});
  job.options.set(job::kPipeline.name, kind);
  job.parallel.mesh = mesh;
  job::take_workers_of_mesh(job, false);
  return job;
}

// Bytes that micro-batches in flight of the first replica keep, by stage.
std::vector<double> predicted_kept(const job::Job& job, const data::Dataset& data) {
  prepare::PrepareOptions options;
  options.replicas = job::mesh_of(job)->num_replicas();
  options.stages = job::stages_of(job);
  std::vector<double> bytes;
  for (; options.stage < options.stages; ++options.stage) {
    const auto prepared = prepare::prepare(job, *job::model_input(job, data), options);
    EXPECT_TRUE(prepared.ok()) << prepared.status().to_string();
    if (!prepared.ok()) return {};
    options.fixed = std::make_shared<const plan::Plan>((*prepared)->whole_plan());
    bytes.push_back(static_cast<double>(prepare::stage_bytes(**prepared, 0)->kept));
  }
  return bytes;
}

TEST(PipelineReports, TellTimeAndMemoryOfEveryStage) {
  const auto data = testing::tiny_pictures(96, 24);
  for (const char* kind : {"gpipe", "1f1b", "zb-h1"}) {
    const job::Job job = deep_job("data=2,stage=2", kind);
    const record::Summary summary = VirtualRuns().train(job, data).summary();
    ASSERT_TRUE(summary.pipeline.has_value());
    const record::PipelineReport& p = *summary.pipeline;
    EXPECT_EQ(p.kind, kind);
    EXPECT_EQ(p.stages, 2);
    EXPECT_EQ(p.segments, 4);
    EXPECT_EQ(p.micro_batches, 4);
    EXPECT_EQ(p.of_ranks.size(), 4U);
    EXPECT_EQ(p.of_ranks[3].stage, 1);
    EXPECT_EQ(p.weight_versions, (std::vector<int>{1, 1}));
    EXPECT_EQ(p.kept_bytes, predicted_kept(job, *data)) << kind;
    EXPECT_GT(p.busy_seconds[0], 0);
    EXPECT_GT(p.busy_seconds[1], 0);
    EXPECT_GT(p.bubble_fraction(), 0);
    EXPECT_LT(p.bubble_fraction(), 1);
    EXPECT_EQ(summary.bytes_by_axis.count("stage"), 1U);
    EXPECT_EQ(summary.exposed_by_axis.count("stage"), 1U);
  }
}

TEST(PipelineReports, AreOfStagesAlone) {
  const auto data = testing::tiny_pictures(96, 24);
  EXPECT_FALSE(VirtualRuns().train(deep_job("data=2"), data).summary().pipeline.has_value());
}

TEST(PipelineReports, NameAStageOnASlowMachine) {
  const auto data = testing::tiny_pictures(96, 24);
  const job::Job job = deep_job("data=1,stage=4");
  EXPECT_EQ(VirtualRuns().train(job, data).summary().pipeline->slow_stage, -1);
  runtime::FaultSpec fault;
  fault.kind = runtime::FaultSpec::Kind::kSlow;
  fault.runtime = 2;
  fault.at = 0;
  fault.factor = 2;
  EXPECT_EQ(VirtualRuns({fault}).train(job, data).summary().pipeline->slow_stage, 2);
}

// What rank 3, the second stage of the second replica, traced: by row the names of its spans in their order.
std::map<std::string, std::vector<std::string>> rows_of(const Json& trace, int rank, std::string& name) {
  std::map<int, std::string> rows;
  std::map<std::string, std::vector<std::string>> spans;
  for (const Json& e : trace["traceEvents"]) {
    if (e.value("pid", -1) != rank) continue;
    if (e["name"] == "process_name") name = e["args"].value("name", "");
    if (e["name"] == "thread_name") rows[e.value("tid", -1)] = e["args"].value("name", "");
  }
  for (const Json& e : trace["traceEvents"])
    if (e.value("pid", -1) == rank && e.value("ph", "") == "X")
      spans[rows[e.value("tid", -1)]].push_back(e["name"].get<std::string>());
  return spans;
}

void expect_trace(const std::string& timetable, const std::vector<std::string>& expected) {
  job::Job job = deep_job("data=2,stage=2");
  job.train.trace_steps = 1;
  job.options.set(job::kPipeline.name, timetable);
  VirtualRuns runs;
  (void)runs.train(job, testing::tiny_pictures(96, 24)).summary();
  const Result<Json> trace = parse_json(runs.read("run/trace.json"), "trace.json");
  ASSERT_TRUE(trace.ok()) << trace.status().to_string();
  std::string name;
  const auto rows = rows_of(*trace, 3, name);
  EXPECT_EQ(name, "rank 3 (data 1, stage 1)");
  ASSERT_EQ(rows.count("stage 1"), 1U);
  std::vector<std::string> phases;
  std::size_t waits = 0;
  for (const std::string& span : rows.at("stage 1"))
    span.starts_with("wait for ") ? void(++waits) : phases.push_back(span);
  EXPECT_EQ(phases, expected);
  EXPECT_GT(waits, 0U);
  std::size_t updates = 0;
  for (const auto& [row, spans] : rows)
    for (const std::string& span : spans) {
      if (!span.starts_with("U ")) continue;
      ++updates;
      EXPECT_TRUE(row.starts_with("stage 1, bucket ")) << row;
    }
  EXPECT_GT(updates, 0U);
}

TEST(PipelineReports, TraceThePhasesUpdatesAndWaitsOfAStage) {
  expect_trace("1f1b", {"F 0", "B+W 0", "F 1", "B+W 1", "F 2", "B+W 2", "F 3", "B+W 3"});
  expect_trace("zb-h1", {"F 0", "B 0", "F 1", "B 1", "W 0", "F 2", "B 2", "W 1", "F 3", "B 3", "W 2", "W 3"});
}

start::SimulateOptions simulated(const std::string& kind) {
  start::SimulateOptions o;
  o.phantom = true;
  o.job.model.layers = Json::array();
  for (int i = 0; i < 8; ++i)
    o.job.model.layers.push_back({{"kind", "dense"}, {"out", 512}, {"activation", "relu"}});
  o.job.model.layers.push_back({{"kind", "classifier"}});
  o.job.train.batch = 8192;
  o.job.train.steps = 4;
  o.job.options.set(job::kPipeline.name, kind);
  o.job.options.set(job::kMicroBatches.name, std::int64_t{8});
  o.job.parallel.mesh = "data=1,stage=4";
  job::take_workers_of_mesh(o.job, false);
  o.link.bytes_per_second = 1e11;
  o.link.latency_ns = 1;
  return o;
}

// Sums of gradients and the vote are in the one and not in the other, and take no time beside such batches.
// Steps of zb-h2 would have to begin at the first stage before they end at the last.
TEST(PipelineReports, MeasureTheBubbleThatTheTimetableHas) {
  for (const char* kind : {"gpipe", "1f1b", "zb-h1"}) {
    const start::SimulateReport report = start::simulate_training(simulated(kind), nullptr);
    ASSERT_TRUE(report.ranks[0].ok()) << report.ranks[0].status().to_string();
    ASSERT_TRUE(report.ranks[0]->pipeline.has_value());
    const record::PipelineReport& p = *report.ranks[0]->pipeline;
    ASSERT_EQ(p.of_ranks.size(), 4U);
    EXPECT_GT(p.predicted_bubble_fraction, 0.02) << kind;
    EXPECT_NEAR(p.bubble_fraction(), p.predicted_bubble_fraction, 0.02) << kind;
  }
}

}  // namespace
}  // namespace trireme::train
