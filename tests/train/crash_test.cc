// Whole runs through crashes and failing disks: a run of five steps with three checkpoints is killed, or an
// operation fails, at every file operation in turn, and the same command is given again.
#include <gtest/gtest.h>

#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"

namespace trireme::train::testing {
namespace {

using runtime::DiskFault;
using runtime::FaultSpec;

// The job has everything that a checkpoint holds: weights, moments, running statistics.
job::Job crash_job(int workers = 1) {
  job::Job job = tiny_job();
  job.model.layers = *parse_json(R"([{"kind": "conv2d", "out": 2, "window": 4},
                                     {"kind": "batch_norm", "activation": "relu"}, {"kind": "classifier"}])",
                                 "layers");
  job.train.steps = 5;
  job.train.checkpoint_steps = 2;
  job.train.eval_steps = 2;
  job.train.optimizer.kind = "adam";
  job.train.optimizer.lr = 0.01;
  job.parallel.workers = workers;
  return job;
}

FaultSpec at_operation(FaultSpec::Kind kind, int process, std::uint64_t operation) {
  FaultSpec fault;
  fault.kind = kind;
  fault.runtime = process;
  fault.site = "disk";
  fault.index = operation;
  return fault;
}

class TrainCrash : public ::testing::Test {
 protected:
  TrainCrash() : data_(tiny_pictures(40, 10, 8)) {
    VirtualRuns alone;
    expected_ = alone.train(crash_job(), data_).summary();
    lines_ = alone.metrics();
  }

  // The same command once more: the same bits, every step once in the metrics, a whole summary.
  void expect_finishes(VirtualRuns& runs, int workers) {
    // A finished run has only its summary to give, and rank 0 does not meet others for that.
    const Result<Json> before = parse_json(runs.read("run/summary.json"), "summary.json");
    if (before.ok() && before->value("finished", false)) workers = 1;
    const record::Summary end = runs.train(crash_job(workers), data_).summary();
    EXPECT_EQ(end.parameters_sha256, expected_.parameters_sha256);
    EXPECT_EQ(end.steps, 5);
    EXPECT_TRUE(end.finished);
    EXPECT_EQ(runs.metrics(), lines_);
    const Result<Json> written = parse_json(runs.read("run/summary.json"), "summary.json");
    ASSERT_TRUE(written.ok()) << written.status().to_string();
    EXPECT_EQ(written->value("parameters_sha256", ""), expected_.parameters_sha256);
    EXPECT_EQ(written->value("test_loss", 0.0), expected_.test_loss);
    EXPECT_TRUE(written->value("finished", false));
  }

  std::shared_ptr<const data::Dataset> data_;
  record::Summary expected_;
  std::vector<Json> lines_;
};

TEST_F(TrainCrash, AtAnyFileOperationTheSameCommandEndsInTheSameBits) {
  std::uint64_t operation = 0;
  for (bool killed = true; killed; ++operation) {
    SCOPED_TRACE(fmt::format("killed at file operation {}", operation));
    ASSERT_LT(operation, 2000U);
    VirtualRuns runs({at_operation(FaultSpec::Kind::kKill, 0, operation)});
    killed = runs.train(crash_job(), data_).killed;
    expect_finishes(runs, 1 + static_cast<int>(operation % 3));
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(operation, 60U);
}

TEST_F(TrainCrash, OfTheRankThatWritesIsNamedByTheOtherAndTheRunGoesOn) {
  int kills = 0;
  for (std::uint64_t operation = 0; operation < 70; operation += 3) {
    SCOPED_TRACE(fmt::format("rank 0 of 2 killed at file operation {}", operation));
    VirtualRuns runs({at_operation(FaultSpec::Kind::kKill, 0, operation)});
    const RunOutcome out = runs.train(crash_job(2), data_);
    kills += out.killed ? 1 : 0;
    if (out.killed && !out.ranks[1].ok() && !out.steps.empty()) {
      EXPECT_EQ(out.ranks[1].status().context().peer.value_or(-1), 0) << out.ranks[1].status().to_string();
    }
    expect_finishes(runs, 2);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(kills, 20);
}

TEST_F(TrainCrash, TwiceInARowTheSameCommandEndsInTheSameBits) {
  int pairs = 0;
  for (std::uint64_t first = 5; first < 70; first += 6) {
    bool killed = true;
    for (std::uint64_t second = first % 7; killed; second += 7, ++pairs) {
      SCOPED_TRACE(fmt::format("killed at file operation {}, then at {}", first, second));
      VirtualRuns runs(
          {at_operation(FaultSpec::Kind::kKill, 0, first), at_operation(FaultSpec::Kind::kKill, 1, second)});
      EXPECT_TRUE(runs.train(crash_job(), data_).killed);
      killed = runs.train(crash_job(), data_).killed;
      expect_finishes(runs, 1);
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(pairs, 100);
}

TEST_F(TrainCrash, AnyFailingFileOperationEndsTheRunWithItsPathAndHarmsNothing) {
  int failures = 0;
  std::uint64_t operation = 0;
  for (int quiet = 0; quiet < 10; ++operation) {
    SCOPED_TRACE(fmt::format("file operation {} fails", operation));
    ASSERT_LT(operation, 2000U);
    VirtualRuns runs({at_operation(FaultSpec::Kind::kError, 0, operation)});
    const RunOutcome out = runs.train(crash_job(), data_);
    const bool ok = out.ranks[0].ok();
    failures += ok ? 0 : 1;
    quiet = ok ? quiet + 1 : 0;
    if (!ok) {
      EXPECT_NE(out.ranks[0].status().message().find("/run"), std::string::npos)
          << out.ranks[0].status().to_string();
    }
    expect_finishes(runs, 1);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(failures, 40);
}

TEST_F(TrainCrash, AFullDiskEndsTheRunWithThePathAndTheRunGoesOnWhenThereIsRoom) {
  int failures = 0;
  for (std::uint64_t capacity = 0; capacity < 40000; capacity += 400) {
    SCOPED_TRACE(fmt::format("full at {} bytes", capacity));
    DiskFault full;
    full.kind = DiskFault::Kind::kFull;
    full.capacity_bytes = capacity;
    full.duration = 3600 * kSecond;  // then somebody makes room
    VirtualRuns runs({}, {full});
    const RunOutcome out = runs.train(crash_job(), data_);
    failures += out.ranks[0].ok() ? 0 : 1;
    if (!out.ranks[0].ok()) {
      EXPECT_EQ(out.ranks[0].status().code(), Code::kExhausted) << out.ranks[0].status().to_string();
      EXPECT_NE(out.ranks[0].status().message().find("/run"), std::string::npos)
          << out.ranks[0].status().to_string();
    }
    runs.sleep(2 * 3600 * kSecond);
    expect_finishes(runs, 1);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(failures, 10);
  EXPECT_LT(failures, 100) << "there was never room";
}

// Four ranks write their parts of every tensor; the run goes on where one rank has everything.
TEST_F(TrainCrash, OfAnyRankOfAMeshLeavesACheckpointThatOtherMeshesGoOnFrom) {
  const auto job = [](const char* mesh, std::int64_t level) {
    job::Job out = crash_job();
    out.train.logical_tiles = 2;
    out.parallel.mesh = mesh;
    out.options.set(job::kStyle.name, "tensor");
    job::take_workers_of_mesh(out, false);
    out.options.set(job::kZero.name, level);
    return out;
  };
  VirtualRuns alone;
  const record::Summary expected = alone.train(job("data=1,model=2", 0), data_).summary();
  int broken = 0, begun = 0;
  for (int victim = 0; victim < 4; ++victim)
    for (std::uint64_t operation = victim; operation < 60; operation += 2) {
      SCOPED_TRACE(fmt::format("rank {} killed at file operation {}", victim, operation));
      VirtualRuns runs({at_operation(FaultSpec::Kind::kKill, victim, operation)});
      const RunOutcome out = runs.train(job("data=2,model=2", 3), data_);
      const std::size_t other = victim == 0 ? 1 : 0;
      if (!out.ranks[other].ok()) {
        ++broken;
        begun += out.steps.empty() ? 0 : 1;
        if (!out.steps.empty()) {
          EXPECT_EQ(out.ranks[other].status().context().peer, victim)
              << out.ranks[other].status().to_string();
        }
      }
      const record::Summary end = runs.train(job("data=1,model=1", 0), data_).summary();
      EXPECT_TRUE(end.finished);
      EXPECT_EQ(end.parameters_sha256, expected.parameters_sha256);
      EXPECT_EQ(runs.metrics(), alone.metrics());
      ASSERT_FALSE(HasFailure());
    }
  EXPECT_GT(broken, 20);
  EXPECT_GT(begun, 10) << "killed while training";
}

}  // namespace
}  // namespace trireme::train::testing
