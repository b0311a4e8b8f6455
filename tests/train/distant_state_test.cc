// Checkpoints of workers at their own pace: what workers and servers keep goes to the disk without a rank
// that has all of it.
#include "trireme/train/distant_state.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/train/measured_memory.h"
#include "tests/train/small_jobs.h"
#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/engine/state/piece_stream.h"

namespace trireme::train {
namespace {

using testing::measured_bytes;
using testing::tiny_pictures;
using testing::VirtualRuns;

constexpr std::int64_t kModelBytes = 4 * 669'706;  // mnist-mlp

job::Job digits_job(const std::string& rule, int workers, int servers) {
  job::Job job;
  job.model.name = "mnist-mlp";
  job.train.batch = 32;
  job.train.steps = 4;
  job.train.checkpoint_steps = 2;
  job.train.shard_threads = 1;
  job.train.optimizer.kind = "adam";
  job.parallel.workers = workers;
  job.parallel.servers = servers;
  job.parallel.agreement = rule;
  return job;
}

// What saving adds to the peak of all ranks together.
std::int64_t bytes_of_saving(const job::Job& job) {
  const auto data = testing::few_digits(300, 60);
  std::string folder = ::testing::TempDir() + "distant-XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  const std::int64_t added = measured_bytes(job, data, folder) - measured_bytes(job, data);
  std::filesystem::remove_all(folder);
  return added;
}

// Four workers have twelve times the model in weights and moments, two servers twice.
TEST(DistantState, ASaveNeedsMemoryForTheModelAndTwoChunksHoweverManyKeepState) {
  constexpr std::int64_t kMost = kModelBytes + 2 * engine::StreamCall::kChunkBytes;
  EXPECT_LT(bytes_of_saving(digits_job("averaging", 4, 0)), kMost);
  EXPECT_LT(bytes_of_saving(digits_job("bsp-server", 2, 2)), kMost);
}

// The second of three workers is killed at many moments of the meeting at which the only checkpoint is made.
TEST(DistantState, WithoutAWorkerThatDiesMeanwhileACheckpointIsWholeAndHasNoStateOfRules) {
  job::Job job = testing::tiny_job();
  job.train.logical_shards = 0;
  job.train.shard_threads = 1;
  job.train.steps = 2;
  job.parallel.workers = 3;
  job.parallel.servers = 1;
  job.parallel.agreement = "downpour";
  job.parallel.codec = "1bit";
  const auto data = tiny_pictures(120, 40);
  VirtualRuns whole;
  const testing::RunOutcome undisturbed = whole.train(job, data);
  ASSERT_TRUE(undisturbed.summary().finished);
  ASSERT_EQ(undisturbed.steps.size(), 2U);
  const TimeNs begin = undisturbed.steps[1].now, length = from_seconds(undisturbed.summary().wall_seconds);
  int with_rules = 0, without = 0;
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE(i);
    runtime::FaultSpec fault;
    fault.runtime = 1;
    fault.at = begin + length * i / 100;
    VirtualRuns runs({fault});
    const testing::RunOutcome outcome = runs.train(job, data);
    ASSERT_TRUE(outcome.ranks[0].ok()) << outcome.ranks[0].status().to_string();
    EXPECT_TRUE(outcome.ranks[0]->finished);
    int of_rules = 0, of_servers = 0;
    for (const auto& [name, tensor] : runs.checkpoint().tensors) {
      of_rules += name.starts_with("rule/") ? 1 : 0;
      of_servers += name.starts_with("server/") ? 1 : 0;
    }
    EXPECT_EQ(of_servers, 4) << "velocities of two weights and two biases";
    EXPECT_EQ(of_rules % 3, 0) << "of all three workers or of none";
    ++(of_rules > 0 ? with_rules : without);
  }
  EXPECT_GT(with_rules, 0);
  EXPECT_GT(without, 0);
}

}  // namespace
}  // namespace trireme::train
