// A run that ended half-way goes on from its last checkpoint to the same bits, with any number of workers.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/train/small_jobs.h"

namespace trireme::train {
namespace {

using testing::few_digits;
using testing::hash_in_process;
using testing::small_job;

class Resume : public ::testing::Test {
 protected:
  Resume() {
    std::string pattern = ::testing::TempDir() + "trireme-resume-XXXXXX";
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  ~Resume() override { std::filesystem::remove_all(dir_); }

  std::string folder(const std::string& name) {
    std::filesystem::create_directories(dir_ + "/" + name + "/checkpoints");
    return dir_ + "/" + name;
  }

  std::string dir_;
};

job::Job checkpointed_job(int workers) {
  job::Job job = small_job("lenet", 9, workers);
  job.train.checkpoint_steps = 3;
  return job;
}

// Runs until rank 0's `call`-th collective fails.
void run_until_failure(const job::Job& job, std::shared_ptr<const data::Dataset> data,
                       const std::string& run_dir, std::uint64_t call) {
  start::InProcessOptions options;
  options.job = job;
  options.data = std::move(data);
  options.run_dir = run_dir;
  options.faults = {{{runtime::RealFault::Kind::kError, "collective", call}}};
  for (const auto& rank : start::train_in_process(options)) EXPECT_FALSE(rank.ok());
}

TEST_F(Resume, AfterAFailureTheSameCommandEndsInTheSameBits) {
  const auto data = few_digits(100, 40);
  const std::string expected = hash_in_process(checkpointed_job(2), data);
  const std::string run_dir = folder("run");
  run_until_failure(checkpointed_job(2), data, run_dir, 12);  // between the checkpoints of steps 3 and 6
  EXPECT_TRUE(std::filesystem::exists(run_dir + "/checkpoints/step-000000003/manifest.json"));
  EXPECT_EQ(hash_in_process(checkpointed_job(3), data, run_dir), expected)
      << "resumed with another number of workers";
}

TEST_F(Resume, AFailureBeforeTheFirstCheckpointStartsOver) {
  const auto data = few_digits(100, 40);
  const std::string run_dir = folder("early");
  run_until_failure(checkpointed_job(2), data, run_dir, 4);
  EXPECT_EQ(hash_in_process(checkpointed_job(1), data, run_dir), hash_in_process(checkpointed_job(1), data));
}

TEST_F(Resume, ADamagedNewestCheckpointFallsBackToTheOneBefore) {
  const auto data = few_digits(100, 40);
  const std::string expected = hash_in_process(checkpointed_job(2), data);
  const std::string run_dir = folder("damaged");
  run_until_failure(checkpointed_job(2), data, run_dir, 18);  // after step 6's checkpoint
  const std::string newest = run_dir + "/checkpoints/step-000000006/tensors-00001-of-00001.safetensors";
  ASSERT_TRUE(std::filesystem::exists(newest));
  std::filesystem::resize_file(newest, std::filesystem::file_size(newest) - 1);
  EXPECT_EQ(hash_in_process(checkpointed_job(2), data, run_dir), expected);
}

TEST_F(Resume, MoreWorkersThanTheRunsShardsAreRefused) {
  const auto data = few_digits(100, 40);
  job::Job job = checkpointed_job(2);
  job.train.logical_shards = 0;  // fixed to 2 at the first start
  const std::string run_dir = folder("grow");
  run_until_failure(job, data, run_dir, 8);
  job.parallel.workers = 3;
  start::InProcessOptions options;
  options.job = job;
  options.data = data;
  options.run_dir = run_dir;
  const auto ranks = start::train_in_process(options);
  ASSERT_FALSE(ranks[0].ok());
  EXPECT_NE(ranks[0].status().message().find("logical shards"), std::string::npos)
      << ranks[0].status().message();
}

}  // namespace
}  // namespace trireme::train
