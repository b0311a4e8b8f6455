// Codecs where the model is cut, over tiles, into segments, or both: encoders work on what a rank has of a
// matrix, and what they keep goes where shards and tiles go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

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
using testing::VirtualRuns;

void set(job::Job& job, const std::string& text) {
  const Status status = job::set_job_key(job, text);
  EXPECT_TRUE(status.ok()) << status.to_string();
}

// Three matrices, of which a second tile of three has pieces of other sizes than the first.
job::Job matrices_on(const std::string& mesh, std::int64_t tiles) {
  job::Job job = testing::tiny_job();
  job.model.layers = *parse_json(
      R"([{"kind": "dense", "out": 20, "activation": "relu"}, {"kind": "dense", "out": 16, "activation": "tanh"},
          {"kind": "classifier"}])",
      "layers");
  job.train.logical_tiles = tiles;
  job.train.checkpoint_steps = 3;
  job.parallel.check_steps = 1;  // what several tiles have whole must stay equal
  return on_mesh(std::move(job), mesh);
}

job::Job low_rank_on(const std::string& mesh, std::int64_t tiles) {
  job::Job job = matrices_on(mesh, tiles);
  for (const char* text : {"parallel.codec=powersgd", "parallel.codec_rank=1", "parallel.codec_least=16",
                           "parallel.codec_dense_steps=1"})
    set(job, text);
  return job;
}

TEST(MeshCodecs, LowRankOfPiecesHasTheSameBitsOnEveryMeshOfTheSameTiles) {
  const auto data = testing::tiny_pictures(96, 24);
  for (const std::int64_t tiles : {2, 3}) {
    const std::string expected = hash_virtual(low_rank_on("data=1,model=1", tiles), data);
    ASSERT_EQ(expected.size(), 64U) << tiles;
    EXPECT_NE(hash_virtual(matrices_on("data=1,model=1", tiles), data), expected) << tiles;
    for (const char* mesh : {"data=1,model=2", "data=2,model=2", "data=4,model=1"})
      EXPECT_EQ(hash_virtual(low_rank_on(mesh, tiles), data), expected) << mesh << " of " << tiles;
    EXPECT_EQ(hash_in_process(low_rank_on("data=2,model=2", tiles), data), expected) << "threads";
  }
}

TEST(MeshCodecs, LowRankOfPiecesGoesOnElsewhereWithWhatItHasKept) {
  const auto data = testing::tiny_pictures(96, 24);
  const std::string expected = hash_virtual(low_rank_on("data=2,model=3", 3), data);
  VirtualRuns runs;
  testing::RunOptions stop;
  stop.stop_at = 4;
  EXPECT_FALSE(runs.train(low_rank_on("data=2,model=3", 3), data, stop).summary().finished);
  stop.stop_at = 7;
  EXPECT_FALSE(runs.train(low_rank_on("data=1,model=2", 3), data, stop).summary().finished);
  EXPECT_EQ(runs.train(low_rank_on("data=4,model=1", 3), data).summary().parameters_sha256, expected);
}

TEST(MeshCodecs, LowRankOfPiecesInStagesHasTheSameBits) {
  const auto data = testing::tiny_pictures(96, 24);
  const auto cells = [](const std::string& mesh) {
    job::Job job = low_rank_on(mesh, 2);
    job.options.set(job::kSegments.name, std::int64_t{3});
    return job;
  };
  const std::string expected = hash_virtual(cells("data=1"), data);
  ASSERT_EQ(expected.size(), 64U);
  EXPECT_EQ(hash_virtual(cells("data=2,stage=3,model=2"), data), expected);
  VirtualRuns runs;
  testing::RunOptions stop;
  stop.stop_at = 4;
  EXPECT_FALSE(runs.train(cells("data=2,stage=2,model=2"), data, stop).summary().finished);
  EXPECT_EQ(runs.train(cells("data=4,stage=3,model=1"), data).summary().parameters_sha256, expected);
}

// Every tile has all of the second matrix and makes its update: what is drawn for it must be the same.
TEST(MeshCodecs, WhatSeveralTilesHaveWholeStaysEqual) {
  const auto data = testing::tiny_pictures(96, 24);
  for (const char* codec : {"powersgd", "qsgd", "terngrad", "randomk", "1bit", "topk"})
    for (const char* reducer : {"gather", "split"}) {
      job::Job job = matrices_on("data=2,model=3", 3);
      job.parallel.layouts = {"dense1/weight: model=replicate"};
      set(job, fmt::format("parallel.codec={}", codec));
      set(job, "parallel.codec_least=1");
      set(job, "parallel.codec_dense_steps=0");
      if (job.parallel.codec == "powersgd")
        set(job, "parallel.codec_rank=1");
      else
        set(job, fmt::format("parallel.reducer={}", reducer));
      VirtualRuns runs;
      EXPECT_TRUE(runs.train(job, data).summary().finished) << codec << ", " << reducer;
    }
}

// Pairs of replicas write to each other, whatever ranks lie between them.
TEST(MeshCodecs, SumsInRoundsFindTheirPartnersOnEveryMesh) {
  const auto data = testing::tiny_pictures(96, 24);
  const auto doubling = [](const std::string& mesh) {
    job::Job job = matrices_on(mesh, 2);
    job.options.set(job::kSegments.name, std::int64_t{3});
    for (const char* text : {"parallel.codec=topk", "parallel.codec_fraction=0.1", "parallel.codec_least=16",
                             "parallel.codec_dense_steps=1", "parallel.reducer=doubling"})
      set(job, text);
    return job;
  };
  const std::string expected = hash_virtual(doubling("data=1"), data);
  ASSERT_EQ(expected.size(), 64U);
  for (const char* mesh : {"data=2,model=2", "data=4,stage=2", "data=3,stage=3,model=2"})
    EXPECT_EQ(hash_virtual(doubling(mesh), data), expected) << mesh;
}

// ---- Chosen by cost

job::Job choosing_on(const std::string& mesh, const char* tolerance) {
  job::Job job = testing::tiny_job();
  job.model.layers = *parse_json(
      R"([{"kind": "dense", "out": 256, "activation": "relu"}, {"kind": "dense", "out": 128, "activation": "relu"},
          {"kind": "classifier"}])",
      "layers");
  job.train.logical_shards = 0;
  job.train.batch = 16;
  job.train.checkpoint_steps = 100;
  job.parallel.bucket_bytes = 0;
  job.parallel.codec = "auto";
  job.parallel.codec_tolerance = tolerance;
  job.parallel.codec_options.set("least", 64);
  return on_mesh(std::move(job), mesh);
}

cost::LinkModel slow_link() { return *cost::parse_link("10mbit,1us,1us"); }

TEST(MeshCodecs, AreChosenByCostWhereTheModelIsCut) {
  const auto data = testing::tiny_pictures(96, 24);
  for (const auto& [mesh, most] : {std::pair("data=2,model=2", 0.5), std::pair("data=2,stage=2", 0.8),
                                   std::pair("data=2,stage=2,model=2", 1.02)}) {
    SCOPED_TRACE(mesh);
    const auto seconds_of = [&](const job::Job& job) {
      VirtualRuns runs({}, slow_link());
      const record::Summary s = runs.train(job, data, {.run_dir = ""}).summary();
      EXPECT_TRUE(s.finished);
      return s.wall_seconds;
    };
    VirtualRuns whole({}, slow_link()), stopped({}, slow_link());
    const record::Summary s = whole.train(choosing_on(mesh, "feedback"), data).summary();
    EXPECT_TRUE(s.finished);
    EXPECT_NE(s.codec, "none");
    job::Job dense = choosing_on(mesh, "feedback");
    dense.parallel.codec = "none";
    dense.parallel.codec_options = {};
    // With tiles in stages what these exchange hides the gradients; the choice does no harm there.
    EXPECT_LT(seconds_of(choosing_on(mesh, "feedback")), most * seconds_of(dense));
    const Result<Json> plan = parse_json(whole.read("run/plan.json"), "plan.json");
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ((*plan)["codec"], s.codec);
    std::set<std::string> priced;
    for (const Json& choice : (*plan)["codec_choices"]) priced.insert(choice.at("codec").get<std::string>());
    for (const char* codec : {"none", "fp16", "1bit", "topk", "powersgd"})
      EXPECT_TRUE(priced.contains(codec)) << codec;
    EXPECT_FALSE(priced.contains("factors"));
    testing::RunOptions stop;
    stop.stop_at = 4;
    EXPECT_FALSE(stopped.train(choosing_on(mesh, "feedback"), data, stop).summary().finished);
    EXPECT_EQ(stopped.train(choosing_on(mesh, "feedback"), data).summary().parameters_sha256,
              s.parameters_sha256);
  }
}

// The bits are the job's where it fixes its shards: nothing that rounds is chosen.
TEST(MeshCodecs, ThatAreChosenLeaveTheBitsOfFixedShardsAlone) {
  const auto data = testing::tiny_pictures(96, 24);
  const auto hash = [&](const char* codec) {
    job::Job job = choosing_on("data=2,stage=2,model=2", "feedback");
    job.train.logical_shards = 4;
    job.parallel.codec = codec;
    if (job.parallel.codec == "none") job.parallel.codec_options = {};
    VirtualRuns runs({}, slow_link());
    return runs.train(job, data).summary().parameters_sha256;
  };
  EXPECT_EQ(hash("auto"), hash("none"));
}

// ---- Rates of whole tensors

job::Job lars_on(const std::string& mesh, std::int64_t tiles, double clip_norm) {
  job::Job job = matrices_on(mesh, tiles);
  job.train.optimizer.kind = "lars";
  job.train.optimizer.lr = 1;
  job.train.optimizer.clip_norm = clip_norm;
  job.train.optimizer.options.set("weight_decay", 0.1);
  return job;
}

TEST(MeshCodecs, RatesPerTensorAreThoseOfTheWholeTensor) {
  const auto data = testing::tiny_pictures(96, 24);
  const auto train = [&](const job::Job& job) {
    VirtualRuns runs;
    EXPECT_TRUE(runs.train(job, data).summary().finished);
    return runs.checkpoint().tensors;
  };
  for (const double clip_norm : {0.0, 0.3}) {
    SCOPED_TRACE(clip_norm);
    const io::NamedTensors whole = train(lars_on("data=1,model=1", 1, clip_norm));
    for (const std::int64_t tiles : {2, 3})
      testing::expect_close(train(lars_on("data=2,model=2", tiles, clip_norm)), whole, 2e-4);
    const std::string expected = hash_virtual(lars_on("data=1,model=1", 3, clip_norm), data);
    ASSERT_EQ(expected.size(), 64U);
    for (const char* mesh : {"data=1,model=3", "data=2,model=2", "data=4,model=3"})
      EXPECT_EQ(hash_virtual(lars_on(mesh, 3, clip_norm), data), expected) << mesh;
    EXPECT_EQ(hash_in_process(lars_on("data=2,model=3", 3, clip_norm), data), expected) << "threads";
  }
}

TEST(MeshCodecs, RatesPerTensorGoWithLowRankAndStages) {
  const auto data = testing::tiny_pictures(96, 24);
  const auto cells = [](const std::string& mesh) {
    job::Job job = lars_on(mesh, 2, 0);
    for (const char* text : {"parallel.codec=powersgd", "parallel.codec_rank=1", "parallel.codec_least=16"})
      set(job, text);
    job.options.set(job::kSegments.name, std::int64_t{3});
    return job;
  };
  const std::string expected = hash_virtual(cells("data=1"), data);
  ASSERT_EQ(expected.size(), 64U);
  VirtualRuns runs;
  testing::RunOptions stop;
  stop.stop_at = 4;
  EXPECT_FALSE(runs.train(cells("data=2,stage=3,model=2"), data, stop).summary().finished);
  EXPECT_EQ(runs.train(cells("data=2,stage=2"), data).summary().parameters_sha256, expected);
}

// ---- What stays refused

TEST(MeshCodecs, RefuseWhatNeedsWholeLayersAndSaysWhy) {
  const auto why = [](const std::vector<std::string>& sets) {
    job::Job job = testing::tiny_job();
    for (const std::string& text : sets) set(job, text);
    job::take_workers_of_mesh(job, false);
    return job::check_job(job).message();
  };
  EXPECT_THAT(why({"parallel.mesh=data=2,model=2", "parallel.codec=factors"}),
              HasSubstr("a tile has a piece of a layer, and factors are of whole ones; use powersgd"));
  EXPECT_THAT(why({"parallel.mesh=data=2,stage=2", "parallel.codec=factors"}),
              HasSubstr("factors of several batches cannot be; use powersgd"));
  EXPECT_THAT(why({"parallel.mesh=data=2,model=2", "train.optimizer.kind=lars",
                   "parallel.agreement=averaging", "train.logical_shards=0"}),
              HasSubstr("parallel.agreement = bsp"));
  EXPECT_THAT(why({"parallel.mesh=data=2,model=2", "train.optimizer.kind=lars",
                   "parallel.agreement=bsp-server", "parallel.servers=1", "train.logical_shards=0"}),
              HasSubstr("parallel.agreement = bsp"));
  EXPECT_THAT(why({"parallel.mesh=data=2,model=2", "train.optimizer.kind=lars", "train.device=cuda"}),
              HasSubstr("train.device"));
}

}  // namespace
}  // namespace trireme::train
