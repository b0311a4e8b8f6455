// What stages of a pipeline hold in memory: as predicted, and below a limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/train/measured_memory.h"
#include "tests/train/small_jobs.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"
#include "trireme/prepare/memory_estimate.h"
#include "trireme/prepare/prepare.h"
#include "trireme/prepare/stages.h"

namespace trireme::train::testing {
namespace {

using ::testing::HasSubstr;

const model::ModelInput kDigits{Shape{1, 28, 28}, 10};

// Norms give what can be computed again.
job::Job normed_job(const std::string& timetable) {
  job::Job job = small_job("mlp", 3, 1);
  const Json wide{{"kind", "dense"}, {"out", 128}}, norm{{"kind", "layer_norm"}};
  job.model.layers =
      Json::array({wide, norm, wide, norm, wide, norm, wide, norm, wide, norm, {{"kind", "classifier"}}});
  job.train.batch = 512;
  job.train.logical_shards = 4;
  job.train.shard_threads = 1;
  job.parallel.mesh = "stage=2";
  job.parallel.transport = "inproc";
  job.options.set(job::kPipeline.name, timetable);
  job.options.set(job::kSegments.name, std::int64_t{4});
  job::take_workers_of_mesh(job, false);
  return job;
}

std::vector<std::int64_t> predicted(const job::Job& job) {
  const auto workers = prepare::estimate_workers(job, kDigits, 1);
  EXPECT_TRUE(workers.ok()) << workers.status().to_string();
  return workers.ok() ? *workers : std::vector<std::int64_t>{0};
}

// What all stages copy of the model when a checkpoint is written, which is what one worker would.
std::int64_t copied_for_checkpoints(job::Job job) {
  job.parallel.mesh = "";
  job.parallel.workers = 1;
  job.train.memory_limit = "";
  job.options.set(job::kPipeline.name, std::string("1f1b"));
  job.options.set(job::kSegments.name, std::int64_t{0});
  const auto whole = prepare::estimate_memory(job, kDigits, 1);
  EXPECT_TRUE(whole.ok()) << whole.status().to_string();
  return whole.ok() ? whole->bytes_of("checkpoint") : 0;
}

// Without a run folder nothing is written.
double predicted_without_checkpoints(const job::Job& job) {
  const std::vector<std::int64_t> ranks = predicted(job);
  return static_cast<double>(std::accumulate(ranks.begin(), ranks.end(), std::int64_t{0}) -
                             copied_for_checkpoints(job));
}

TEST(PipelineMemory, IsWithinFivePercentOfWhatRanksHoldAtTheirPeak) {
  const auto data = few_digits(1024, 64);
  std::int64_t of_gpipe = 0;
  for (const char* timetable : {"gpipe", "1f1b", "zb-h1"}) {
    const job::Job job = normed_job(timetable);
    const double expected = predicted_without_checkpoints(job);
    EXPECT_NEAR(static_cast<double>(measured_bytes(job, data)) / expected, 1, 0.05) << timetable;
    if (of_gpipe == 0) of_gpipe = predicted(job)[1];
  }
  EXPECT_LT(predicted(normed_job("1f1b"))[1], of_gpipe) << "fewer micro-batches in flight";
}

TEST(PipelineMemory, CountsTheSumsOfBatchesWhereBatchesGrow) {
  job::Job job = normed_job("1f1b");
  const std::vector<std::int64_t> before = predicted(job);
  job.train.optimizer.max_batch_multiplier = 2;
  const std::vector<std::int64_t> now = predicted(job);
  for (std::size_t stage = 0; stage < now.size(); ++stage) EXPECT_GT(now[stage], before[stage]) << stage;
  EXPECT_NEAR(
      static_cast<double>(measured_bytes(job, few_digits(1024, 64))) / predicted_without_checkpoints(job), 1,
      0.05);
}

// The first stage.
std::shared_ptr<const prepare::Prepared> prepared_stage(const job::Job& job) {
  prepare::PrepareOptions options;
  options.stages = job::stages_of(job);
  return *prepare::prepare(job, kDigits, options);
}

// What the gradients of weights are made of waits for W only where W is not directly behind B.
TEST(PipelineMemory, NothingIsKeptFromBackwardToWeightsWhereTheTwoAreOneAction) {
  const auto prepared = [](const char* timetable) {
    job::Job job = normed_job(timetable);
    job.options.set(job::kSegments.name, std::int64_t{2});
    job.parallel.mesh = "data=1";  // both segments are here
    job::take_workers_of_mesh(job, false);
    return prepared_stage(job);
  };
  const auto split = prepared("zb-h1");
  for (const char* timetable : {"gpipe", "1f1b"}) {
    const auto joined = prepared(timetable);
    std::int64_t kept = 0, kept_by_split = 0;
    for (std::size_t s = 0; s < joined->stages->segments.size(); ++s) {
      const prepare::StageSegment &now = joined->stages->segments[s], &then = split->stages->segments[s];
      kept += now.train->arena_bytes();
      kept_by_split += then.train->arena_bytes();
      EXPECT_TRUE(now.early.empty());
      const auto flops = [](const prepare::StageSegment& segment, int phase) {
        return segment.train->phase_cost(phase).flops;
      };
      EXPECT_GT(flops(then, prepare::kWeightsPhase), 0);
      EXPECT_EQ(flops(now, prepare::kWeightsPhase), 0);
      EXPECT_EQ(flops(now, prepare::kForwardPhase), flops(then, prepare::kForwardPhase));
      EXPECT_EQ(flops(now, prepare::kBackwardPhase),
                flops(then, prepare::kBackwardPhase) + flops(then, prepare::kWeightsPhase));
    }
    EXPECT_LT(kept, kept_by_split) << timetable;
  }
}

// Versions of weights are the only difference.
TEST(PipelineMemory, WithoutStashingNoOlderWeightsAreHeld) {
  const auto data = few_digits(1024, 64);
  job::Job job = normed_job("async");
  job.train.logical_shards = 0;
  const std::vector<std::int64_t> stashed = predicted(job);
  const double measured = static_cast<double>(measured_bytes(job, data));
  job.options.set(job::kWeightStashing.name, false);
  const std::vector<std::int64_t> newest = predicted(job);
  ASSERT_EQ(stashed.size(), 2U);
  const auto prepared = prepared_stage(job);
  std::int64_t version = 0;
  for (const plan::Bucket& b : prepared->plan.buckets) version += 4 * b.num_elems;
  EXPECT_GT(version, 100'000);
  EXPECT_EQ(stashed[0] - newest[0], version);
  EXPECT_EQ(stashed[1], newest[1]);
  EXPECT_NEAR(measured - static_cast<double>(measured_bytes(job, data)), static_cast<double>(version),
              0.05 * static_cast<double>(version));
}

TEST(PipelineMemory, UnderALimitValuesAreComputedAgainAndTheBitsAreTheSame) {
  const auto data = few_digits(512, 64);
  job::Job job = normed_job("gpipe");
  const std::string hash = hash_in_process(job, data);
  ASSERT_EQ(hash.size(), 64U);
  const std::vector<std::int64_t> free = predicted(job);
  const std::int64_t most = *std::max_element(free.begin(), free.end()), limit = most - (256 << 10);
  job.train.memory_limit = std::to_string(limit);
  const std::vector<std::int64_t> limited = predicted(job);
  ASSERT_EQ(limited.size(), free.size());
  for (const std::int64_t bytes : limited) EXPECT_LE(bytes, limit);
  EXPECT_EQ(hash_in_process(job, data), hash);
  const double expected = predicted_without_checkpoints(job);
  EXPECT_NEAR(static_cast<double>(measured_bytes(job, data)) / expected, 1, 0.05);
}

TEST(PipelineMemory, AStageThatCannotFitIsRefusedBeforeTheStart) {
  job::Job job = normed_job("gpipe");
  job.train.memory_limit = "1MiB";
  const Status refused = prepare::check_stage_memory(job, kDigits);
  EXPECT_EQ(refused.code(), Code::kInvalid);
  for (const char* says : {"train.memory_limit: stage 0 of 2 needs ", "expected at most 1.0 MiB",
                           "nothing more can be computed again", "use more stages"})
    EXPECT_THAT(refused.message(), HasSubstr(says));
  job.train.memory_limit = "1GiB";
  EXPECT_TRUE(prepare::check_stage_memory(job, kDigits).ok());
}

}  // namespace
}  // namespace trireme::train::testing
