// Models that are cut in their depth train as pipelines: to what one worker trains them to, and to the same
// bits for any number of stages and replicas, any timetable and any transport.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/train/mesh/mesh_jobs.h"
#include "tests/train/small_jobs.h"
#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/cost/cost.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"

namespace trireme::train {
namespace {

using testing::hash_in_process;
using testing::hash_virtual;
using ::testing::HasSubstr;
using testing::tiny_cases;
using testing::TinyCase;
using testing::VirtualRuns;

void set(job::Job& job, const std::string& text) {
  const Status status = job::set_job_key(job, text);
  EXPECT_TRUE(status.ok()) << status.to_string();
}

// What a pipeline does not go along with is refused, see below.
std::vector<TinyCase> piped_cases() {
  std::vector<TinyCase> cases = tiny_cases();
  std::erase_if(cases, [](const TinyCase& c) { return c.name == "factors"; });
  return cases;
}

// The arithmetic of a pipeline without one: two segments, four shards.
job::Job in_segments(job::Job job, const std::string& mesh, int segments = 2) {
  job.train.logical_shards = 4;
  job.options.set(job::kSegments.name, std::int64_t{segments});
  job.parallel.mesh = mesh;
  job::take_workers_of_mesh(job, false);
  return job;
}

struct Trained {
  record::Summary summary;
  io::NamedTensors tensors;
};

Trained train(const job::Job& job, const std::shared_ptr<const data::Dataset>& data) {
  VirtualRuns runs;
  Trained out;
  out.summary = runs.train(job, data).summary();
  out.tensors = runs.checkpoint().tensors;
  return out;
}

class PipelineTrains : public ::testing::TestWithParam<std::size_t> {};

TEST_P(PipelineTrains, ToWhatOneWorkerTrainsItTo) {
  const TinyCase c = piped_cases()[GetParam()];
  job::Job whole_job = c.job;
  whole_job.train.logical_shards = 4;
  const Trained whole = train(whole_job, c.data);
  const Trained cut = train(in_segments(c.job, "data=2,stage=2"), c.data);
  const bool low = c.job.train.precision != "f32";
  EXPECT_EQ(cut.summary.steps, whole.summary.steps);
  EXPECT_NEAR(cut.summary.test_loss, whole.summary.test_loss, low ? 0.05 : 1e-4);
  testing::expect_close(cut.tensors, whole.tensors, low ? 0.1 : 2e-4);
}

TEST_P(PipelineTrains, ToTheSameBitsOnEveryMesh) {
  const TinyCase c = piped_cases()[GetParam()];
  const std::string expected = train(in_segments(c.job, "data=1"), c.data).summary.parameters_sha256;
  ASSERT_EQ(expected.size(), 64U) << c.name;
  for (const char* mesh : {"stage=2", "data=2", "data=3,stage=2"})
    EXPECT_EQ(hash_virtual(in_segments(c.job, mesh), c.data), expected) << c.name << " on " << mesh;
  EXPECT_EQ(hash_in_process(in_segments(c.job, "data=2,stage=2"), c.data), expected) << c.name << ", threads";
}

INSTANTIATE_TEST_SUITE_P(Cases, PipelineTrains, ::testing::Range(std::size_t{0}, piped_cases().size()),
                         [](const auto& info) { return piped_cases()[info.param].name; });

// Eight blocks with a skip across several of them, batch norm and dropout.
job::Job deep_job() {
  job::Job job = testing::tiny_job();
  job.model.layers = *parse_json(
      R"([{"kind": "dense", "out": 12, "activation": "relu"}, {"kind": "batch_norm"},
          {"kind": "residual", "layers": [{"kind": "dense", "out": 12, "activation": "tanh"}]},
          {"kind": "dropout", "rate": 0.2},
          {"kind": "residual", "layers": [{"kind": "dense", "out": 12, "activation": "relu"}]},
          {"kind": "dense", "out": 10, "activation": "relu"}, {"kind": "dense", "out": 9, "activation": "relu"},
          {"kind": "classifier"}])",
      "layers");
  job.train.batch = 24;
  return job;
}

job::Job deep_on(const std::string& mesh, const std::string& timetable = "1f1b", int virtual_stages = 1) {
  job::Job job = in_segments(deep_job(), mesh, 4);
  job.train.logical_shards = 8;
  set(job, "parallel.pipeline=" + timetable);
  job.options.set(job::kVirtualStages.name, std::int64_t{virtual_stages});
  return job;
}

TEST(Pipeline, EveryTimetableEndsInTheSameBits) {
  const auto data = testing::tiny_pictures(96, 24);
  const std::string expected = hash_virtual(deep_on("data=1"), data);
  ASSERT_EQ(expected.size(), 64U);
  for (const char* kind : {"gpipe", "1f1b", "zb-h1", "zb-h2"})
    for (const char* mesh : {"stage=2", "stage=3", "data=2,stage=4"})
      EXPECT_EQ(hash_virtual(deep_on(mesh, kind), data), expected) << kind << " on " << mesh;
  for (const char* mesh : {"stage=2", "data=2,stage=2"})
    EXPECT_EQ(hash_virtual(deep_on(mesh, "interleaved", 2), data), expected) << "interleaved on " << mesh;
  EXPECT_EQ(hash_in_process(deep_on("data=2,stage=3", "zb-h1"), data), expected) << "threads";
}

// A run keeps its segments, whatever mesh and timetable it goes on with.
TEST(Pipeline, GoesOnWithOtherStagesToTheSameBits) {
  const auto data = testing::tiny_pictures(96, 24);
  const auto saving = [](job::Job job) {
    job.train.checkpoint_steps = 3;
    return job;
  };
  const std::string expected = hash_virtual(saving(deep_on("data=1")), data);
  VirtualRuns runs;
  testing::RunOptions stop;
  stop.stop_at = 4;
  EXPECT_FALSE(runs.train(saving(deep_on("data=2,stage=2")), data, stop).summary().finished);
  stop.stop_at = 7;
  EXPECT_FALSE(runs.train(saving(deep_on("stage=4", "gpipe")), data, stop).summary().finished);
  const record::Summary summary = runs.train(saving(deep_on("data=4", "zb-h1")), data).summary();
  EXPECT_TRUE(summary.finished);
  EXPECT_EQ(summary.parameters_sha256, expected);
}

// Steps of up to four batches: 5 batches are an epoch, and a step ends with it.
job::Job growing_on(const std::string& mesh, const std::string& timetable = "1f1b", int virtual_stages = 1) {
  job::Job job = deep_on(mesh, timetable, virtual_stages);
  job.train.steps = 20;
  job.train.checkpoint_steps = 3;
  job.train.optimizer.schedule = "step";
  job.train.optimizer.milestones = {0.2, 0.5};
  job.train.optimizer.factor = 0.5;
  job.train.optimizer.max_batch_multiplier = 4;
  return job;
}

TEST(Pipeline, StepsOfSeveralBatchesEndInTheSameBits) {
  const auto data = testing::tiny_pictures(120, 24);
  VirtualRuns alone;
  const testing::RunOutcome whole = alone.train(growing_on("data=1"), data);
  const std::string expected = whole.summary().parameters_sha256;
  ASSERT_EQ(expected.size(), 64U);
  std::vector<std::int64_t> samples;
  for (const auto& step : whole.steps) samples.push_back(step.samples);
  EXPECT_THAT(samples, ::testing::IsSupersetOf({24, 48, 96}));
  for (const char* kind : {"gpipe", "1f1b", "zb-h1"})
    for (const char* mesh : {"stage=3", "data=2,stage=4"}) {
      VirtualRuns runs;
      const testing::RunOutcome cut = runs.train(growing_on(mesh, kind), data);
      EXPECT_EQ(cut.summary().parameters_sha256, expected) << kind << " on " << mesh;
      ASSERT_EQ(cut.steps.size(), whole.steps.size());
      for (std::size_t i = 0; i < whole.steps.size(); ++i)
        EXPECT_EQ(cut.steps[i].loss, whole.steps[i].loss) << kind << " on " << mesh << ", step " << i + 1;
    }
  EXPECT_EQ(hash_virtual(growing_on("data=2,stage=2", "interleaved", 2), data), expected);
  EXPECT_EQ(hash_in_process(growing_on("data=2,stage=3"), data), expected) << "threads";
}

TEST(Pipeline, StepsOfSeveralBatchesEndInTheSameBitsWhereReplicasDivideState) {
  const auto data = testing::tiny_pictures(120, 24);
  const std::string expected = hash_virtual(growing_on("data=1"), data);
  ASSERT_EQ(expected.size(), 64U);
  for (const std::int64_t level : {1, 2, 3})
    for (const char* kind : {"1f1b", "zb-h1"}) {
      job::Job job = growing_on("data=2,stage=2", kind);
      job.options.set(job::kZero.name, level);
      EXPECT_EQ(hash_virtual(job, data), expected) << kind << ", level " << level;
    }
}

TEST(Pipeline, StepsOfSeveralBatchesAreResumedOnOtherStages) {
  const auto data = testing::tiny_pictures(120, 24);
  const auto coded = [](job::Job job) {
    job.parallel.codec = "1bit";
    set(job, "parallel.codec_least=16");
    set(job, "parallel.codec_dense_steps=0");
    return job;
  };
  for (const bool is_coded : {false, true}) {
    const auto on = [&](const char* mesh, const char* kind) {
      job::Job job = growing_on(mesh, kind);
      return is_coded ? coded(std::move(job)) : job;
    };
    const std::string expected = hash_virtual(on("data=1", "1f1b"), data);
    ASSERT_EQ(expected.size(), 64U);
    VirtualRuns runs;
    testing::RunOptions stop;
    stop.stop_at = 4;
    EXPECT_FALSE(runs.train(on("data=2,stage=2", "1f1b"), data, stop).summary().finished);
    stop.stop_at = 7;
    EXPECT_FALSE(runs.train(on("stage=4", "gpipe"), data, stop).summary().finished);
    const record::Summary summary = runs.train(on("data=3,stage=3", "zb-h1"), data).summary();
    EXPECT_TRUE(summary.finished);
    EXPECT_EQ(summary.parameters_sha256, expected) << (is_coded ? "1bit" : "dense");
  }
}

// Weights of a text model that its first and its last layer read.
job::Job tied_job(const std::string& mesh) {
  job::Job job = testing::tiny_job();
  job.model.layers = Json::array();
  job.model.name = "char-gpt";
  job.model.options = Json{{"width", 8}, {"layers", 2}, {"heads", 2}, {"dropout", 0.1}};
  job.data.kind = "text";
  job.data.path = "tiny.txt";
  job.train.optimizer.kind = "adam";
  job.train.optimizer.lr = 0.02;
  job.train.optimizer.clip_norm = 0.5;
  return in_segments(std::move(job), mesh, 4);
}

TEST(Pipeline, WeightsThatTwoStagesReadHaveOneGradient) {
  const auto data = testing::tiny_text(40, 9);
  job::Job alone = tied_job("data=1");
  alone.options.set(job::kSegments.name, std::int64_t{0});
  const Trained whole = train(alone, data), cut = train(tied_job("stage=4"), data);
  EXPECT_NEAR(cut.summary.test_loss, whole.summary.test_loss, 1e-4);
  testing::expect_close(cut.tensors, whole.tensors, 5e-4);
  const std::string expected = hash_virtual(tied_job("data=1"), data);
  for (const char* mesh : {"stage=2", "stage=3", "stage=4", "data=2,stage=4"})
    EXPECT_EQ(hash_virtual(tied_job(mesh), data), expected) << mesh;
}

// Shards, tiles and segments fix the arithmetic; who has which of them does not.
job::Job in_cells(job::Job job, const std::string& mesh) {
  job.train.logical_shards = 4;
  job.train.logical_tiles = 2;
  job.options.set(job::kSegments.name, std::int64_t{3});
  return testing::on_mesh(std::move(job), mesh);
}

TEST(Pipeline, StagesOfTilesEndInTheSameBits) {
  const auto pictures = testing::tiny_pictures(96, 24), text = testing::tiny_text(40, 9);
  for (const auto& [job, data] : {std::pair(deep_job(), pictures), std::pair(tied_job(""), text)}) {
    const Trained alone = train(in_cells(job, "data=1"), data);
    const std::string expected = alone.summary.parameters_sha256;
    ASSERT_EQ(expected.size(), 64U);
    for (const char* mesh :
         {"stage=2", "model=2", "stage=2,model=2", "stage=3,model=2", "data=2,stage=2,model=2"})
      EXPECT_EQ(hash_virtual(in_cells(job, mesh), data), expected) << mesh;
    EXPECT_EQ(hash_in_process(in_cells(job, "data=2,stage=3,model=2"), data), expected) << "threads";
    job::Job whole = job;
    whole.train.logical_shards = 4;
    whole.parallel.mesh = "";
    whole.parallel.workers = 1;
    whole.options.set(job::kSegments.name, std::int64_t{0});
    testing::expect_close(alone.tensors, train(whole, data).tensors, 5e-4);
  }
}

job::Job coded(const std::string& codec, const std::string& mesh) {
  job::Job job = deep_on(mesh);
  job.parallel.codec = codec;
  set(job, "parallel.codec_least=16");  // the model is tiny
  set(job, "parallel.codec_dense_steps=0");
  if (codec == "powersgd") set(job, "parallel.codec_rank=1");
  job.train.checkpoint_steps = 3;
  return job;
}

// What encoders keep back is of a shard and a segment, and goes where these go.
TEST(Pipeline, CodecsEncodeOnTheDataAxisAndTheirStateIsResumed) {
  const auto data = testing::tiny_pictures(96, 24);
  for (const char* codec : {"1bit", "powersgd"}) {
    const std::string expected = hash_virtual(coded(codec, "data=2,stage=2"), data);
    ASSERT_EQ(expected.size(), 64U) << codec;
    EXPECT_NE(hash_virtual(deep_on("data=2,stage=2"), data), expected) << codec;
    EXPECT_EQ(hash_virtual(coded(codec, "data=1"), data), expected) << codec;
    VirtualRuns runs;
    testing::RunOptions stop;
    stop.stop_at = 4;
    EXPECT_FALSE(runs.train(coded(codec, "data=2,stage=2"), data, stop).summary().finished);
    EXPECT_EQ(runs.train(coded(codec, "data=4,stage=3"), data).summary().parameters_sha256, expected)
        << codec;
  }
}

// Replicas divide the optimizer's state of each stage.
TEST(Pipeline, ReplicasThatDivideStateEndInTheSameBits) {
  const auto data = testing::tiny_pictures(96, 24);
  const auto divided = [](const std::string& mesh, const char* zero) {
    job::Job job = deep_on(mesh);
    set(job, zero);
    job.train.optimizer.kind = "adam";
    job.train.optimizer.lr = 0.01;
    job.train.checkpoint_steps = 3;
    return job;
  };
  const std::string expected = hash_virtual(divided("data=2,stage=2", "parallel.zero=0"), data);
  ASSERT_EQ(expected.size(), 64U);
  EXPECT_EQ(hash_in_process(divided("data=2,stage=3", "parallel.zero=1"), data), expected);
  VirtualRuns runs;
  testing::RunOptions stop;
  stop.stop_at = 4;
  EXPECT_FALSE(runs.train(divided("data=2,stage=2", "parallel.zero=1"), data, stop).summary().finished);
  EXPECT_EQ(runs.train(divided("data=3,stage=4", "parallel.zero=1"), data).summary().parameters_sha256,
            expected);
}

TEST(Pipeline, MicroBatchesAreTheLogicalShardsOfAReplica) {
  const auto data = testing::tiny_pictures(96, 24);
  job::Job by_shards = deep_on("data=2,stage=2"), by_micro = by_shards;
  by_micro.train.logical_shards = 0;
  set(by_micro, "parallel.micro_batches=4");
  EXPECT_EQ(hash_virtual(by_micro, data), hash_virtual(by_shards, data));
}

TEST(Pipeline, ARankThatIsKilledIsNamedAndTheRunGoesOnElsewhere) {
  const auto data = testing::tiny_pictures(96, 24);
  job::Job job = deep_on("data=2,stage=2");
  job.train.checkpoint_steps = 2;
  const std::string expected = hash_virtual(job, data);
  runtime::FaultSpec fault;
  fault.runtime = 3;
  fault.site = "collective";
  fault.index = 20;
  VirtualRuns runs({fault});
  const auto broken = runs.train(job, data);
  for (const std::size_t rank : {0U, 1U, 2U}) {
    ASSERT_FALSE(broken.ranks[rank].ok()) << rank;
    EXPECT_THAT(broken.ranks[rank].status().message(), HasSubstr("rank 3 (data 1, stage 1)"));
  }
  job::Job other = deep_on("stage=3");
  other.train.checkpoint_steps = 2;
  EXPECT_EQ(runs.train(other, data).summary().parameters_sha256, expected);
}

// Stages wait for each other for longer than the deadline, as long as somebody computes.
TEST(Pipeline, StagesThatComputeForLongAreNotTakenForStuck) {
  const auto data = testing::tiny_pictures(96, 24);
  cost::MachineModel slow;
  slow.op_overhead_ns = kSecond / 2;  // of every node
  for (const char* kind : {"1f1b", "gpipe", "zb-h2"}) {
    job::Job job = deep_on("data=2,stage=4", kind);
    job.train.steps = 2;
    VirtualRuns runs(slow, cost::LinkModel());
    EXPECT_EQ(runs.train(job, data).summary().steps, 2) << kind;
  }
}

struct Refusal {
  const char* set;
  const char* says;
};

TEST(Pipeline, RefusesWhatCannotGoAlongBeforeTheStart) {
  const auto why = [](const char* setting) {
    job::Job job = deep_on("data=2,stage=2");
    EXPECT_TRUE(job::set_job_key(job, setting).ok()) << setting;
    return job::check_job(job).message();
  };
  EXPECT_EQ(why("parallel.pipeline=gpipe"), "");
  const Refusal refusals[] = {
      {"train.segments=1", "2 or more: a mesh with stage=2"},
      {"parallel.micro_batches=3", "4, or 0: train.logical_shards = 8 are shared by 2 replicas"},
      {"parallel.virtual_stages=2", "1 with parallel.pipeline = 1f1b; set that to interleaved"},
      {"parallel.pipeline=interleaved", "2 or more with parallel.pipeline = interleaved"},
      {"parallel.pipeline=gpip", "gpipe"},
      {"parallel.agreement=downpour", "parallel.agreement"},
      {"parallel.codec=factors", "parallel.codec"},
      {"train.device=cuda", "train.device"},
      {"train.optimizer.max_batch_multiplier=65536",
       "a step has at most 65536 micro-batches, and a batch has 4"},
  };
  for (const Refusal& r : refusals) EXPECT_THAT(why(r.set), HasSubstr(r.says)) << r.set;
}

}  // namespace
}  // namespace trireme::train
