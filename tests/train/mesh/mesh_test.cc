// Models that are cut over the model axis of a mesh train to what one worker trains them to: within rounding
// of the model in one piece, and to the same bits for any number of replicas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/train/mesh/mesh_jobs.h"
#include "tests/train/small_jobs.h"
#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"

namespace trireme::train {
namespace {

using testing::hash_in_process;
using testing::hash_virtual;
using ::testing::HasSubstr;
using testing::on_mesh;
using testing::tiny_cases;
using testing::TinyCase;
using testing::VirtualRuns;

// What cannot be cut is refused, in mesh_refusals below.
std::vector<TinyCase> cut_cases() {
  std::vector<TinyCase> cases = tiny_cases();
  std::erase_if(cases, [](const TinyCase& c) { return c.name == "factors"; });
  return cases;
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

// Rounding differs, and 16 bits round much.
void expect_close(const Trained& got, const Trained& expected, double tolerance) {
  testing::expect_close(got.tensors, expected.tensors, tolerance);
}

class MeshTrains : public ::testing::TestWithParam<std::size_t> {};

TEST_P(MeshTrains, ToWhatOneWorkerTrainsItTo) {
  const TinyCase c = cut_cases()[GetParam()];
  const Trained whole = train(c.job, c.data);
  const bool low = c.job.train.precision != "f32";
  for (const char* mesh : {"data=1,model=2", "data=2,model=2", "data=1,model=3"}) {
    SCOPED_TRACE(fmt::format("{} on {}", c.name, mesh));
    const Trained cut = train(on_mesh(c.job, mesh), c.data);
    EXPECT_EQ(cut.summary.steps, whole.summary.steps);
    EXPECT_NEAR(cut.summary.test_loss, whole.summary.test_loss, low ? 0.05 : 1e-4);
    expect_close(cut, whole, low ? 0.1 : 2e-4);
  }
}

TEST_P(MeshTrains, ToTheSameBitsForAnyNumberOfReplicas) {
  const TinyCase c = cut_cases()[GetParam()];
  const std::string expected = train(on_mesh(c.job, "data=1,model=2"), c.data).summary.parameters_sha256;
  ASSERT_EQ(expected.size(), 64U) << c.name;
  for (const char* mesh : {"data=2,model=2", "data=3,model=2"})
    EXPECT_EQ(hash_virtual(on_mesh(c.job, mesh), c.data), expected) << c.name << " on " << mesh;
  EXPECT_EQ(hash_in_process(on_mesh(c.job, "data=2,model=2"), c.data), expected) << c.name << ", threads";
}

// The parts of the model and of the batch are fixed; who has which of them is not.
job::Job in_tiles(job::Job job, const std::string& mesh) {
  job.train.logical_shards = 4;
  job.train.logical_tiles = 4;
  return on_mesh(std::move(job), mesh);
}

TEST_P(MeshTrains, ToTheSameBitsOnEveryMeshOfTheSameTiles) {
  const TinyCase c = cut_cases()[GetParam()];
  if (c.job.train.optimizer.max_batch_multiplier > 1 || c.name == "skip") return;
  const std::string expected = train(in_tiles(c.job, "data=1,model=4"), c.data).summary.parameters_sha256;
  ASSERT_EQ(expected.size(), 64U) << c.name;
  for (const char* mesh : {"data=1,model=1", "data=1,model=3", "data=2,model=2", "data=3,model=2"})
    EXPECT_EQ(hash_virtual(in_tiles(c.job, mesh), c.data), expected) << c.name << " on " << mesh;
}

TEST(MeshTrainsExperts, DealtOutAsInOnePlace) {
  const std::vector<TinyCase> cases = tiny_cases();
  const auto c =
      std::find_if(cases.begin(), cases.end(), [](const TinyCase& t) { return t.name == "experts"; });
  ASSERT_NE(c, cases.end());
  const Trained whole = train(c->job, c->data);
  for (const char* mesh : {"data=1,model=2", "data=2,model=3"}) {
    SCOPED_TRACE(mesh);
    const Trained cut = train(on_mesh(c->job, mesh, "expert"), c->data);
    EXPECT_NEAR(cut.summary.test_loss, whole.summary.test_loss, 1e-4);
    expect_close(cut, whole, 2e-4);
  }
  EXPECT_EQ(hash_in_process(on_mesh(c->job, "data=2,model=2", "expert"), c->data),
            train(on_mesh(c->job, "data=1,model=2", "expert"), c->data).summary.parameters_sha256);
}

// ---- Activations that move in chunks

struct ChunkCase {
  std::string name;  // letters only
  std::string style, scheme;
  std::int64_t chunks = 1;
};
const ChunkCase kChunkCases[] = {{"vertical", "one-weird-trick", "vertical"},
                                 {"horizontal", "one-weird-trick", "horizontal"},
                                 {"thirds", "one-weird-trick", "horizontal", 3},
                                 {"overlapped", "tensor", "broadcast", 2}};

// So much to convolve and such large weights that samples are cut and activations move; shards of 12 samples.
job::Job chunk_job() {
  job::Job job = testing::tiny_job();
  job.model.layers = *parse_json(
      R"([{"kind": "conv2d", "out": 48, "window": 5, "padding": 2, "activation": "relu"},
          {"kind": "conv2d", "out": 96, "window": 5, "padding": 2, "stride": 2, "activation": "relu"},
          {"kind": "dense", "out": 512, "activation": "relu"}, {"kind": "dense", "out": 128, "activation": "relu"},
          {"kind": "classifier"}])",
      "layers");
  job.train.steps = 4;
  job.train.batch = 24;
  job.train.logical_shards = 2;
  return job;
}

job::Job in_chunks(const ChunkCase& c, const std::string& mesh) {
  job::Job job = on_mesh(chunk_job(), mesh, c.style);
  job.options.set(job::kFcScheme.name, c.scheme);
  job.options.set(job::kOverlapChunks.name, c.chunks);
  job.parallel.layouts = {"dense*/weight: model=0"};  // products want all samples
  return job;
}

class MeshTrainsInChunks : public ::testing::TestWithParam<ChunkCase> {};

TEST_P(MeshTrainsInChunks, ToWhatOneWorkerTrainsItTo) {
  const ChunkCase c = GetParam();
  const auto data = testing::tiny_pictures(40, 10, 8);
  const Trained whole = train(chunk_job(), data);
  for (const char* mesh : {"data=1,model=2", "data=2,model=2", "data=1,model=3"}) {
    SCOPED_TRACE(mesh);
    const Trained cut = train(in_chunks(c, mesh), data);
    EXPECT_EQ(cut.summary.steps, whole.summary.steps);
    EXPECT_NEAR(cut.summary.test_loss, whole.summary.test_loss, 1e-4);
    expect_close(cut, whole, 2e-4);
  }
}

TEST_P(MeshTrainsInChunks, ToBitsOfItsOwnForAnyNumberOfReplicas) {
  const ChunkCase c = GetParam();
  const auto data = testing::tiny_pictures(40, 10, 8);
  const std::string expected = train(in_chunks(c, "data=1,model=2"), data).summary.parameters_sha256;
  ASSERT_EQ(expected.size(), 64U);
  const ChunkCase at_once{"", c.style, "broadcast", 1};
  if (c.scheme != "broadcast") {  // gradients are added in another order
    EXPECT_NE(hash_virtual(in_chunks(at_once, "data=1,model=2"), data), expected);
  }
  EXPECT_EQ(hash_virtual(in_chunks(c, "data=2,model=2"), data), expected);
  EXPECT_EQ(hash_in_process(in_chunks(c, "data=2,model=2"), data), expected) << "threads";
}

INSTANTIATE_TEST_SUITE_P(Schemes, MeshTrainsInChunks, ::testing::ValuesIn(kChunkCases),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Cases, MeshTrains, ::testing::Range(std::size_t{0}, cut_cases().size()),
                         [](const auto& info) { return cut_cases()[info.param].name; });

TEST(Tiles, GiveTheSameBitsOnAllMeshesAndThreads) {
  const auto data = testing::tiny_pictures(96, 24);
  const auto hash = [&](const char* mesh) { return hash_virtual(in_tiles(testing::tiny_job(), mesh), data); };
  const std::string expected = hash("data=1,model=4");
  ASSERT_EQ(expected.size(), 64U);
  for (const char* mesh : {"model=1", "model=2", "model=3", "data=2,model=1", "data=2,model=2",
                           "data=3,model=2", "data=4,model=1", "data=4,model=3", "data=4,model=4"})
    EXPECT_EQ(hash(mesh), expected) << mesh;
  EXPECT_EQ(hash_in_process(in_tiles(testing::tiny_job(), "data=2,model=3"), data), expected) << "threads";
}

// A run keeps its tiles, whatever mesh it goes on with.
TEST(Tiles, StayThoseOfTheRunOnAnotherMesh) {
  const auto data = testing::tiny_pictures(96, 24);
  job::Job job = testing::tiny_job();
  job.train.logical_shards = 4;
  job.train.checkpoint_steps = 3;
  const std::string expected = hash_virtual(on_mesh(job, "data=2,model=2"), data);
  VirtualRuns runs;
  testing::RunOptions stop;
  stop.stop_at = 4;
  const auto begun = runs.train(on_mesh(job, "data=2,model=2"), data, stop);
  EXPECT_FALSE(begun.summary().finished);
  stop.stop_at = 7;
  EXPECT_FALSE(runs.train(on_mesh(job, "data=1,model=1"), data, stop).summary().finished);
  const record::Summary summary = runs.train(on_mesh(job, "data=4,model=1"), data).summary();
  EXPECT_TRUE(summary.finished);
  EXPECT_EQ(summary.parameters_sha256, expected);
  EXPECT_EQ(summary.workers, 4);
  EXPECT_EQ(summary.tiles, 2);
  EXPECT_EQ(summary.per_worker.size(), 4U);
}

TEST(Tiles, ARankThatIsKilledIsNamedAndTheRunGoesOnElsewhere) {
  const auto data = testing::tiny_pictures(96, 24);
  job::Job job = testing::tiny_job();
  job.train.logical_shards = 4;
  job.train.logical_tiles = 3;
  job.train.checkpoint_steps = 2;
  const std::string expected = hash_virtual(on_mesh(job, "data=1,model=3"), data);
  runtime::FaultSpec fault;
  fault.runtime = 1;
  fault.site = "collective";
  fault.index = 60;
  VirtualRuns runs({fault});
  const auto broken = runs.train(on_mesh(job, "data=2,model=2"), data);
  for (const std::size_t rank : {0U, 2U, 3U}) {
    ASSERT_FALSE(broken.ranks[rank].ok()) << rank;
    const Status& verdict = broken.ranks[rank].status();
    EXPECT_EQ(verdict.context().peer, 1) << verdict.to_string();  // the worker, which has tile 2
    EXPECT_THAT(verdict.message(), HasSubstr("rank 2 (data 0, model 2, worker 1)"));
  }
  const record::Summary summary = runs.train(on_mesh(job, "data=3,model=1"), data).summary();
  EXPECT_EQ(summary.parameters_sha256, expected);
}

job::Job coded(const char* codec, const std::string& mesh) {
  job::Job job = testing::tiny_job();
  job.parallel.codec = codec;
  for (const char* set : {"parallel.codec_least=1", "parallel.codec_dense_steps=1"})
    EXPECT_TRUE(job::set_job_key(job, set).ok()) << set;
  job.train.logical_shards = 4;
  job.train.checkpoint_steps = 3;
  return on_mesh(std::move(job), mesh);
}

// What encoders keep back is of a tile and a shard, and goes where these go.
TEST(Mesh, CodecsEncodeOnTheDataAxisAndTheirStateIsResumed) {
  const auto data = testing::tiny_pictures(96, 24);
  for (const char* codec : {"1bit", "topk", "qsgd"}) {
    const std::string expected = hash_virtual(coded(codec, "data=2,model=2"), data);
    ASSERT_EQ(expected.size(), 64U) << codec;
    EXPECT_NE(hash_virtual(on_mesh(testing::tiny_job(), "data=2,model=2"), data), expected) << codec;
    VirtualRuns runs;
    testing::RunOptions stop;
    stop.stop_at = 4;
    EXPECT_FALSE(runs.train(coded(codec, "data=2,model=2"), data, stop).summary().finished);
    const record::Summary other = runs.train(coded(codec, "data=4,model=1"), data).summary();
    EXPECT_TRUE(other.finished);
    EXPECT_EQ(other.parameters_sha256, expected) << codec;
  }
}

TEST(Mesh, SumsUpByAxis) {
  const auto data = testing::tiny_pictures(96, 24);
  VirtualRuns runs;
  const record::Summary s = runs.train(on_mesh(testing::tiny_job(), "data=2,model=2"), data).summary();
  EXPECT_EQ(s.mesh, "data=2,model=2");
  EXPECT_EQ(s.style, "tensor");
  EXPECT_GT(s.bytes_by_axis.at("data"), 0);
  EXPECT_GT(s.bytes_by_axis.at("model"), 0);
  EXPECT_LT(s.bytes_by_axis.at("data") + s.bytes_by_axis.at("model"), s.bytes_sent_per_step);
  EXPECT_GT(s.exposed_by_axis.at("model"), 0);
  EXPECT_EQ(to_json(s)["mesh"], "data=2,model=2");
}

TEST(Mesh, BytesOfAxesAreThoseOfStepsWithoutEvaluations) {
  const auto data = testing::tiny_pictures(96, 24);
  const auto sent = [&](std::int64_t eval_steps) {
    VirtualRuns runs;
    job::Job job = on_mesh(testing::tiny_job(), "data=2,model=2");
    job.train.eval_steps = eval_steps;
    return runs.train(job, data).summary().bytes_by_axis;
  };
  EXPECT_EQ(sent(1), sent(1000));
}

// Layouts of a checkpoint are of the run; its tensors are the model's.
TEST(Mesh, CheckpointsAreOfTheModel) {
  const auto data = testing::tiny_pictures(96, 24);
  const auto saved = [&](const job::Job& job) {
    VirtualRuns runs;
    runs.train(job, data);
    return runs.checkpoint().tensors;
  };
  const io::NamedTensors whole = saved(testing::tiny_job());
  const io::NamedTensors cut = saved(on_mesh(testing::tiny_job(), "data=2,model=3"));
  ASSERT_EQ(whole.size(), cut.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(whole[i].first, cut[i].first);
    EXPECT_EQ(whole[i].second.type(), cut[i].second.type());
  }
}

struct Refusal {
  const char* set;
  const char* says;
};

TEST(Mesh, RefusesWhatCannotGoAlongBeforeTheStart) {
  const auto why = [](const std::vector<std::string>& sets) {
    job::Job job = testing::tiny_job();
    for (const std::string& set : sets) EXPECT_TRUE(job::set_job_key(job, set).ok()) << set;
    job::take_workers_of_mesh(job, false);
    return job::check_job(job).message();
  };
  EXPECT_EQ(why({"parallel.mesh=data=2,model=2", "parallel.style=tensor"}), "");
  const Refusal refusals[] = {
      {"parallel.codec=factors", "parallel.codec"},
      {"parallel.mesh=data=2,staeg=2", "got axis 'staeg'"},
      {"parallel.mesh=model=2,data=2", "expected data, stage, model"},
      {"parallel.mesh=data=2;model=2", "a mesh is axes with their sizes"},
      {"parallel.style=tensr", "no style 'tensr'"},
      {"parallel.layouts=fc*/weight", "expected NAME: AXIS=DIMENSION"},
      {"parallel.layouts=fc*/weight: stage=0", "axis model"},
      {"train.logical_tiles=1", "cannot share 1 parts of the model"},
      {"train.logical_tiles=100", "would have 50 of the 100 parts of the model"},
      {"train.logical_shards=1", "the 2 replicas of parallel.mesh cannot share 1 logical shards"},
  };
  for (const Refusal& r : refusals)
    EXPECT_THAT(why({"parallel.mesh=data=2,model=2", r.set}), HasSubstr(r.says)) << r.set;
  EXPECT_THAT(why({"parallel.style=tensor"}), HasSubstr("without a model axis"));
  EXPECT_THAT(why({"parallel.workers=3", "parallel.mesh=data=2,model=2"}), HasSubstr("is of 4 workers"));
}

}  // namespace
}  // namespace trireme::train
