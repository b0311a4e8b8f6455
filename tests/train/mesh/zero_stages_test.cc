// parallel.zero where the model is cut in its depth: replicas of a stage that divide state, gradients and
// parameters train to the bits of replicas that have all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runtime/temp_dir.h"
#include "tests/train/measured_memory.h"
#include "tests/train/small_jobs.h"
#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"
#include "trireme/prepare/memory_estimate.h"

namespace trireme::train::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// Eight layers in four segments, eight shards; batch norm has statistics beside its parameters.
job::Job deep_job() {
  job::Job job = tiny_job();
  const Json wide{{"kind", "dense"}, {"out", 12}, {"activation", "relu"}},
      drop{{"kind", "dropout"}, {"rate", 0.2}};
  job.model.layers = Json::array({wide,
                                  {{"kind", "batch_norm"}},
                                  wide,
                                  drop,
                                  wide,
                                  {{"kind", "layer_norm"}},
                                  wide,
                                  {{"kind", "classifier"}}});
  job.train.batch = 24;
  job.train.logical_shards = 8;
  job.train.optimizer.kind = "adam";
  job.train.optimizer.lr = 0.01;
  job.options.set(job::kSegments.name, std::int64_t{4});
  return job;
}

// Its first and its last segment read the table of tokens.
job::Job tied_job() {
  job::Job job = tiny_job();
  job.model.layers = Json::array();
  job.model.name = "char-gpt";
  job.model.options = Json{{"width", 8}, {"layers", 2}, {"heads", 2}, {"dropout", 0.1}};
  job.data.kind = "text";
  job.data.path = "tiny.txt";
  job.train.optimizer.kind = "adam";
  job.train.optimizer.lr = 0.02;
  job.train.batch = 16;
  job.train.logical_shards = 8;
  job.options.set(job::kSegments.name, std::int64_t{4});
  return job;
}

job::Job at(job::Job job, std::int64_t level, const std::string& mesh,
            const std::string& timetable = "1f1b") {
  job.parallel.mesh = mesh;
  job::take_workers_of_mesh(job, false);
  job.options.set(job::kZero.name, level);
  job.options.set(job::kPipeline.name, timetable);
  job.options.set(job::kVirtualStages.name, std::int64_t{timetable == "interleaved" ? 2 : 1});
  return job;
}

TEST(ZeroOfStages, GivesTheSameBitsAtEveryLevelWithEveryTimetable) {
  const auto data = tiny_pictures(96, 24);
  const std::string expected = hash_virtual(at(deep_job(), 0, "data=1"), data);
  ASSERT_EQ(expected.size(), 64U);
  for (const std::int64_t level : {1, 2, 3}) {
    for (const char* timetable : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2"})
      EXPECT_EQ(hash_virtual(at(deep_job(), level, "data=2,stage=2", timetable), data), expected)
          << timetable << ", level " << level;
    for (const char* mesh : {"data=2", "data=4,stage=2", "data=2,stage=4", "data=8,stage=2"})
      EXPECT_EQ(hash_virtual(at(deep_job(), level, mesh), data), expected) << mesh << ", level " << level;
    EXPECT_EQ(hash_in_process(at(deep_job(), level, "data=2,stage=3", "zb-h1"), data), expected)
        << "threads, level " << level;
  }
}

TEST(ZeroOfStages, GivesTheSameBitsWithWeightsThatTwoStagesRead) {
  const auto data = tiny_text(40, 9);
  const std::string expected = hash_virtual(at(tied_job(), 0, "data=1"), data);
  ASSERT_EQ(expected.size(), 64U);
  for (const std::int64_t level : {1, 2, 3})
    for (const char* mesh : {"data=2", "data=2,stage=2", "data=4,stage=2", "data=2,stage=4"})
      EXPECT_EQ(hash_virtual(at(tied_job(), level, mesh, "zb-h1"), data), expected)
          << mesh << ", level " << level;
}

// Low precision, frozen layers, dropout, norms, texts, clipping, skipped steps: whatever a trainer can do.
TEST(ZeroOfStages, GivesTheSameBitsWithAllThatMayGoAlong) {
  int cases = 0;
  for (const TinyCase& c : tiny_cases()) {
    job::Job job = c.job;
    job.train.logical_shards = 4;
    job.options.set(job::kSegments.name, std::int64_t{2});
    if (!job::check_job(at(job, 3, "data=2,stage=2")).ok()) continue;
    ++cases;
    const std::string expected = hash_virtual(at(job, 0, "data=1"), c.data);
    ASSERT_EQ(expected.size(), 64U) << c.name;
    for (const std::int64_t level : {2, 3})
      for (const char* mesh : {"data=2", "data=4,stage=2"})
        EXPECT_EQ(hash_virtual(at(job, level, mesh), c.data), expected)
            << c.name << ", level " << level << " on " << mesh;
  }
  EXPECT_GE(cases, 10);
}

TEST(ZeroOfStages, DividesEveryTileOfAStage) {
  const auto data = tiny_text(40, 9);
  job::Job job = tied_job();
  job.train.logical_tiles = 2;
  const std::string expected = hash_virtual(at(job, 0, "data=1"), data);
  ASSERT_EQ(expected.size(), 64U);
  for (const std::int64_t level : {1, 2, 3})
    EXPECT_EQ(hash_virtual(at(job, level, "data=2,stage=2,model=2"), data), expected) << "level " << level;
  EXPECT_EQ(hash_in_process(at(job, 3, "data=2,stage=2,model=2"), data), expected) << "threads";
}

// Micro-batches of three replicas are no subtrees, and what is known about all gradients first needs them
// whole: then sums are those of level 1.
TEST(ZeroOfStages, KeepsWholeSumsWhereGradientsCannotBeDivided) {
  const auto data = tiny_pictures(96, 24);
  job::Job clipped = deep_job();
  clipped.train.optimizer.clip_norm = 0.5;
  job::Job many = deep_job();
  many.train.logical_shards = 12;
  for (const auto& [job, mesh] : {std::pair(clipped, "data=2,stage=2"), std::pair(many, "data=3,stage=2")}) {
    const std::string expected = hash_virtual(at(job, 0, "data=1"), data);
    ASSERT_EQ(expected.size(), 64U);
    for (const std::int64_t level : {2, 3})
      EXPECT_EQ(hash_virtual(at(job, level, mesh), data), expected) << mesh << ", level " << level;
  }
  const std::string expected = hash_virtual(at(deep_job(), 0, "data=1"), data);
  EXPECT_EQ(hash_virtual(at(deep_job(), 2, "data=3,stage=2"), data), expected) << "unequal numbers of shards";
}

TEST(ZeroOfStages, GoesOnAtAnotherLevelOnAnotherMesh) {
  const auto data = tiny_pictures(96, 24);
  VirtualRuns alone, disturbed;
  const record::Summary expected = alone.train(at(deep_job(), 0, "data=1"), data).summary();
  std::int64_t stop_at = 0;
  struct Start {
    std::int64_t level;
    const char *mesh, *timetable;
  };
  for (const Start& s : {Start{3, "data=2,stage=2", "1f1b"}, Start{2, "data=4,stage=2", "zb-h2"},
                         Start{0, "data=3,stage=2", "gpipe"}, Start{1, "data=2,stage=4", "1f1b"}}) {
    stop_at += 2;
    const record::Summary part =
        disturbed.train(at(deep_job(), s.level, s.mesh, s.timetable), data, {.stop_at = stop_at}).summary();
    ASSERT_FALSE(part.finished) << s.mesh;
    EXPECT_EQ(part.zero, s.level);
  }
  const record::Summary rest = disturbed.train(at(deep_job(), 3, "data=4,stage=3", "zb-h1"), data).summary();
  EXPECT_TRUE(rest.finished);
  EXPECT_EQ(rest.parameters_sha256, expected.parameters_sha256);
  EXPECT_EQ(disturbed.metrics(), alone.metrics());
}

TEST(ZeroOfStages, TellsWhatAxesSendAndHowLongTheyAreWaitedFor) {
  const auto data = tiny_pictures(96, 24);
  double before = 0;
  for (const std::int64_t level : {1, 3}) {
    VirtualRuns runs;
    const record::Summary s = runs.train(at(deep_job(), level, "data=2,stage=2"), data).summary();
    EXPECT_GT(s.bytes_by_axis.at("data"), before) << "weights and gradients travel in every micro-batch";
    EXPECT_GT(s.exposed_by_axis.at("data"), 0) << "level " << level;
    before = s.bytes_by_axis.at("data");
  }
}

TEST(ZeroOfStages, EndsWithAllRanksWhereALossBreaks) {
  job::Job job = deep_job();
  job.train.optimizer.kind = "sgd";
  job.train.optimizer.lr = 1e30;
  for (const std::int64_t level : {2, 3}) {
    VirtualRuns runs;
    const RunOutcome broken = runs.train(at(job, level, "data=2,stage=2"), tiny_pictures(96, 24));
    for (const auto& rank : broken.ranks) {
      ASSERT_FALSE(rank.ok()) << "level " << level;
      EXPECT_THAT(std::string(rank.status().message()), HasSubstr("is not a number")) << "level " << level;
    }
  }
}

// At any of the calls of a rank: others wait for its weights, its gradients, its activations.
TEST(ZeroOfStages, ARankThatIsKilledIsNamedByAllOthers) {
  const auto data = tiny_pictures(96, 24);
  job::Job job = at(deep_job(), 3, "data=2,stage=2");
  job.train.steps = 2;
  bool in_gather = false, in_sum = false;
  for (std::uint64_t call = 6; call < 60; call += 3) {
    runtime::FaultSpec fault;
    fault.runtime = 3;
    fault.site = "collective";
    fault.index = call;
    VirtualRuns runs({fault});
    const RunOutcome broken = runs.train(job, data);
    for (const std::size_t rank : {0U, 1U, 2U}) {
      ASSERT_FALSE(broken.ranks[rank].ok()) << rank << ", call " << call;
      const std::string said(broken.ranks[rank].status().message());
      EXPECT_THAT(said, HasSubstr("rank 3 (data 1, stage 1)")) << "call " << call;
      in_gather = in_gather || said.find("weights of bucket") != std::string::npos;
      in_sum = in_sum || said.find(" bucket") != std::string::npos;
    }
  }
  EXPECT_TRUE(in_gather) << "no call of a gather among them";
  EXPECT_TRUE(in_sum);
}

// Wide enough that the model is most of what ranks hold; a segment per layer.
job::Job wide_job(std::int64_t level, const std::string& timetable) {
  job::Job job = small_job("mlp", 3, 1);
  const Json wide{{"kind", "dense"}, {"out", 256}, {"activation", "relu"}};
  job.model.layers = Json::array({wide, wide, wide, wide, wide, wide, wide, {{"kind", "classifier"}}});
  job.train.batch = 64;
  job.train.logical_shards = 8;
  job.train.shard_threads = 1;
  job.train.optimizer.kind = "adam";
  job.parallel.transport = "inproc";
  job.parallel.bucket_bytes = 1 << 18;
  job.options.set(job::kSegments.name, std::int64_t{8});
  return at(std::move(job), level, "data=2,stage=2", timetable);
}

TEST(ZeroOfStages, MemoryFallsByLevelAsPredicted) {
  const auto data = few_digits(256, 64);
  const model::ModelInput digits{Shape{1, 28, 28}, 10};
  for (const char* timetable : {"gpipe", "1f1b", "zb-h1"}) {
    double before = 1e18;
    for (const std::int64_t level : {0, 1, 2, 3}) {
      const job::Job job = wide_job(level, timetable);
      const auto workers = prepare::estimate_workers(job, digits, 1);
      ASSERT_TRUE(workers.ok()) << workers.status().to_string();
      double predicted = 0;
      for (const std::int64_t bytes : *workers) predicted += static_cast<double>(bytes);
      const runtime::TempDir folder;  // what is written of a checkpoint is predicted too
      const auto measured = static_cast<double>(measured_bytes(job, data, folder.path()));
      // All ranks together, whose messages need scratch as it happens; of each rank in shared memory it is
      // within 5 % (tests/system/mesh_memory_test.cc).
      EXPECT_NEAR(measured / predicted, 1, 0.08) << timetable << ", level " << level;
      EXPECT_LT(measured, before) << timetable << ", level " << level;
      before = measured;
    }
  }
}

TEST(ZeroOfStages, IsRefusedWithTheReason) {
  const auto refused = [](job::Job job) {
    const Status status = job::check_job(job);
    EXPECT_EQ(status.code(), Code::kInvalid);
    return std::string(status.message());
  };
  EXPECT_THAT(refused(at(deep_job(), 3, "data=3,stage=2")),
              HasSubstr("key 'train.logical_shards': got 8, expected a multiple of 3"));
  EXPECT_EQ(job::check_job(at(deep_job(), 2, "data=3,stage=2")).message(), "");
  EXPECT_EQ(job::check_job(at(deep_job(), 3, "data=4,stage=2")).message(), "");
  EXPECT_THAT(refused(at(deep_job(), 3, "data=2,stage=2", "2bw")), HasSubstr("parallel.zero"));
  // The run has eight shards, whatever the job does not say.
  const auto data = tiny_pictures(96, 24);
  job::Job open = deep_job();
  VirtualRuns runs;
  EXPECT_FALSE(runs.train(at(open, 3, "data=4,stage=2"), data, {.stop_at = 2}).summary().finished);
  open.train.logical_shards = 0;
  const RunOutcome other = runs.train(at(open, 3, "data=3,stage=2"), data);
  ASSERT_FALSE(other.ranks[0].ok());
  EXPECT_THAT(std::string(other.ranks[0].status().message()),
              AnyOf(HasSubstr("use a data axis that divides 8"), HasSubstr("logical_shards")));
}

}  // namespace
}  // namespace trireme::train::testing
