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

}  // namespace
}  // namespace trireme::train
