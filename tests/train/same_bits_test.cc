// In synchronous modes the weights depend on the job alone: not on the number of workers, the transport, the
// clock.
#include <gtest/gtest.h>

#include "tests/train/small_jobs.h"

namespace trireme::train {
namespace {

using testing::few_digits;
using testing::hash_in_process;
using testing::hash_virtual;
using testing::small_job;

TEST(SameBits, OneTwoAndThreeWorkersInOneProcessAndOnTheVirtualClusterEndInOneHash) {
  const auto data = few_digits(100, 40);
  for (const char* model : {"lenet", "mlp"}) {
    const std::string expected = hash_in_process(small_job(model, 5, 1), data);
    ASSERT_EQ(expected.size(), 64U);
    for (const int workers : {2, 3, 6}) {
      EXPECT_EQ(hash_in_process(small_job(model, 5, workers), data), expected)
          << model << ", threads, " << workers;
      EXPECT_EQ(hash_virtual(small_job(model, 5, workers), data), expected)
          << model << ", virtual, " << workers;
    }
    EXPECT_EQ(hash_virtual(small_job(model, 5, 1), data), expected) << model;
  }
}

TEST(SameBits, RunsWithTwoThreadsPerShardAgreeAmongThemselves) {
  const auto data = few_digits(100, 0);
  const auto job = [](int workers) {
    job::Job j = small_job("lenet", 4, workers);
    j.train.shard_threads = 2;
    return j;
  };
  const std::string expected = hash_in_process(job(1), data);
  for (const int workers : {2, 3}) EXPECT_EQ(hash_in_process(job(workers), data), expected) << workers;
  for (const int workers : {1, 2, 3}) EXPECT_EQ(hash_virtual(job(workers), data), expected) << workers;
}

TEST(SameBits, OrderOfArrivalOverJitteryLinksChangesNothing) {
  const auto data = few_digits(60, 0);
  job::Job job = small_job("mlp", 3, 4);
  job.parallel.bucket_bytes = 1 << 14;  // several buckets under way at once
  const std::string expected = hash_virtual(job, data);
  for (std::uint64_t seed = 2; seed < 12; ++seed) EXPECT_EQ(hash_virtual(job, data, seed), expected) << seed;
}

TEST(SameBits, SeedShardsAndModelDoChangeTheResult) {
  const auto data = few_digits(60, 0);
  const std::string base = hash_in_process(small_job("mlp", 3, 2), data);
  job::Job seed = small_job("mlp", 3, 2);
  seed.train.seed = 2;
  EXPECT_NE(hash_in_process(seed, data), base);
  job::Job shards = small_job("mlp", 3, 2);
  shards.train.logical_shards = 5;
  EXPECT_NE(hash_in_process(shards, data), base);
  EXPECT_NE(hash_in_process(small_job("mlp", 4, 2), data), base);
}

}  // namespace
}  // namespace trireme::train
