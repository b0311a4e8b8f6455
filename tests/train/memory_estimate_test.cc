// Estimates against the bytes that a real run holds in tensors at its peak.
#include "trireme/prepare/memory_estimate.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/train/measured_memory.h"
#include "tests/train/small_jobs.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::train {
namespace {

using testing::measured_bytes;

job::Job job_of(const std::string& model, std::int64_t batch) {
  job::Job job;
  job.model.name = model;
  job.train.batch = batch;
  job.train.steps = 3;
  job.train.shard_threads = 1;
  return job;
}

const model::ModelInput kDigits{Shape{1, 28, 28}, 10};

// Without a run folder nothing is written: no copy for checkpoints.
TEST(MemoryEstimate, IsWithinFivePercentOfWhatARunHoldsAtItsPeak) {
  const auto data = testing::few_digits(600, 100);
  for (const char* name : {"lenet", "mnist-mlp", "linear"}) {
    for (const std::int64_t batch : {32, 256}) {
      const job::Job job = job_of(name, batch);
      const auto estimate = prepare::estimate_memory(job, kDigits, runtime::num_cores());
      ASSERT_TRUE(estimate.ok()) << estimate.status().to_string();
      const auto expected = static_cast<double>(estimate->total_bytes() - estimate->bytes_of("checkpoint"));
      EXPECT_NEAR(static_cast<double>(measured_bytes(job, data)) / expected, 1, 0.05) << name << " " << batch;
    }
  }
}

TEST(MemoryEstimate, CountsTheCopyThatCheckpointsAreWrittenFrom) {
  const auto data = testing::few_digits(300, 60);
  job::Job job = job_of("mnist-mlp", 32);
  job.train.optimizer.kind = "adam";
  job.train.optimizer.clip_norm = 1;
  std::string folder = ::testing::TempDir() + "memory-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto estimate = prepare::estimate_memory(job, kDigits, runtime::num_cores());
  ASSERT_TRUE(estimate.ok()) << estimate.status().to_string();
  EXPECT_NEAR(
      static_cast<double>(measured_bytes(job, data, folder)) / static_cast<double>(estimate->total_bytes()),
      1, 0.05);
  std::filesystem::remove_all(folder);
}

TEST(MemoryEstimate, CountsWhatEncodersKeepBackAndTheirMessages) {
  const auto data = testing::few_digits(300, 60);
  job::Job job = job_of("mnist-mlp", 64);
  job.parallel.workers = 2;
  const auto estimated = [&] {
    const auto estimate = prepare::estimate_memory(job, kDigits, 1);
    EXPECT_TRUE(estimate.ok()) << estimate.status().to_string();
    return estimate.ok() ? *estimate : prepare::MemoryEstimate{};
  };
  EXPECT_EQ(estimated().bytes_of("codec"), 0);
  for (const char* codec : {"1bit", "topk"}) {
    job.parallel.codec = codec;
    job.parallel.codec_options.set("dense_steps", 0);
    const prepare::MemoryEstimate estimate = estimated();
    EXPECT_GE(estimate.bytes_of("codec"), 4 * 669'706) << "a residual";
    EXPECT_EQ(estimate.bytes_of("exchange"), 0) << codec;
  }
  job.parallel.codec = "fp16";
  EXPECT_LT(estimated().bytes_of("codec"), 4 * 2 * 669'706) << "no residual, messages of half the bytes";
}

// All ranks of a process together. How many buckets are under way at once is a matter of time, and so is
// which run's scratch grows to the largest bucket's; it grows by a new buffer before the old one goes. Of two
// buckets that is at most twice the largest and the other one: no more than twice the estimate.
TEST(MemoryEstimate, HoldsForWorkersThatExchange) {
  const auto data = testing::few_digits(300, 60);
  for (const char* collective : {"fixed-tree", "ring"}) {
    job::Job job = job_of("mnist-mlp", 64);
    job.parallel.workers = 2;
    job.parallel.collective = collective;
    job.parallel.transport = "inproc";
    job.parallel.weights = "own";
    const auto estimate = prepare::estimate_memory(job, kDigits, std::max(1, runtime::num_cores() / 2));
    ASSERT_TRUE(estimate.ok()) << estimate.status().to_string();
    const std::int64_t exchange = estimate->bytes_of("exchange");
    const std::int64_t rest = estimate->total_bytes() - estimate->bytes_of("checkpoint") - exchange;
    const std::int64_t measured = measured_bytes(job, data);
    EXPECT_GT(exchange, 0);
    EXPECT_GE(measured, 2 * rest) << collective;
    EXPECT_LT(static_cast<double>(measured), 1.01 * static_cast<double>(2 * (rest + 2 * exchange)))
        << collective;
  }
}

// Factors of all shards, the sum of the products, and the products under way.
TEST(MemoryEstimate, KnowsWhatFactorsOfGradientsTake) {
  const auto data = testing::few_digits(300, 60);
  job::Job job = job_of("mnist-mlp", 32);
  job.parallel.workers = 2;
  job.train.logical_shards = 4;
  job.parallel.codec = "factors";
  job.parallel.transport = "inproc";
  const auto estimate = prepare::estimate_memory(job, kDigits, std::max(1, runtime::num_cores() / 2));
  ASSERT_TRUE(estimate.ok()) << estimate.status().to_string();
  const auto expected = static_cast<double>(estimate->total_bytes() - estimate->bytes_of("checkpoint"));
  EXPECT_NEAR(static_cast<double>(measured_bytes(job, data)) / 2 / expected, 1, 0.05);
}

TEST(MemoryEstimate, CountsEveryShardOfTheBusiestWorker) {
  job::Job job = job_of("lenet", 60);
  const auto one = prepare::estimate_memory(job, kDigits, 1);
  job.train.logical_shards = 6;
  const auto six = prepare::estimate_memory(job, kDigits, 1);
  job.parallel.workers = 4;
  const auto two = prepare::estimate_memory(job, kDigits, 1);
  ASSERT_TRUE(one.ok() && six.ok() && two.ok());
  EXPECT_EQ(one->shards, 1);
  EXPECT_EQ(six->shards, 6);
  EXPECT_EQ(six->shard_batch, 10);
  EXPECT_EQ(six->bytes_of("buckets"), 6 * one->bytes_of("buckets"));
  EXPECT_EQ(two->shards, 2);
  EXPECT_EQ(2 * six->bytes_of("values"), 6 * two->bytes_of("values"));
  EXPECT_EQ(one->bytes_of("exchange"), 0);
  EXPECT_EQ(two->bytes_of("exchange"), 0) << "read where it lies in the memory of the host";
  job.parallel.transport = "tcp";
  const auto apart = prepare::estimate_memory(job, kDigits, 1);
  ASSERT_TRUE(apart.ok());
  EXPECT_GT(apart->bytes_of("exchange"), 0);
}

TEST(MemoryEstimate, KnowsTheStatesOfOptimisersAndRunningStatistics) {
  job::Job job = job_of("resnet18", 4);
  const model::ModelInput small{Shape{3, 32, 32}, 10};
  const auto momentum = prepare::estimate_memory(job, small, 1);
  job.train.optimizer.kind = "adam";
  const auto adam = prepare::estimate_memory(job, small, 1);
  job.train.optimizer.kind = "sgd";
  const auto sgd = prepare::estimate_memory(job, small, 1);
  ASSERT_TRUE(momentum.ok() && adam.ok() && sgd.ok());
  EXPECT_EQ(momentum->bytes_of("optimizer"), momentum->bytes_of("parameters"));
  EXPECT_EQ(adam->bytes_of("optimizer"), 2 * momentum->bytes_of("parameters"));
  EXPECT_EQ(sgd->bytes_of("optimizer"), 0);
  EXPECT_EQ(sgd->bytes_of("statistics"), 4 * 9600);
}

TEST(MemoryEstimate, TheLargestBatchFitsAndTheNextDoesNot) {
  job::Job job = job_of("lenet", 128);
  for (const std::int64_t shards : {0, 4}) {
    job.train.logical_shards = shards;
    const std::int64_t limit = 256 << 20;
    const auto batch = prepare::largest_batch(job, kDigits, 1, limit);
    ASSERT_TRUE(batch.ok()) << batch.status().to_string();
    job::Job at = job;
    at.train.batch = *batch;
    EXPECT_LE(prepare::estimate_memory(at, kDigits, 1)->total_bytes(), limit);
    at.train.batch = *batch + 1;
    EXPECT_GT(prepare::estimate_memory(at, kDigits, 1)->total_bytes(), limit);
  }
  EXPECT_EQ(*prepare::largest_batch(job, kDigits, 1, 1 << 20), 0);
}

// What a norm gives is kept for the next layer's weights, though what it was made of is kept as well.
TEST(MemoryEstimate, UnderALimitValuesAreComputedAgainAndTheBitsAreTheSame) {
  const auto data = testing::few_digits(128, 16);
  job::Job job = testing::small_job("mlp", 4, 1);
  job.train.batch = 128;
  const Json wide{{"kind", "dense"}, {"out", 128}}, norm{{"kind", "layer_norm"}};
  job.model.layers = {wide, norm, wide, norm, wide, norm, {{"kind", "classifier"}}};
  const int threads = runtime::num_cores();
  const std::string hash = testing::hash_in_process(job, data);
  ASSERT_EQ(hash.size(), 64U);
  const std::int64_t limit = prepare::estimate_memory(job, kDigits, threads)->total_bytes() - (32 << 10);
  job.train.memory_limit = std::to_string(limit);
  const auto limited = prepare::estimate_memory(job, kDigits, threads);
  ASSERT_TRUE(limited.ok()) << limited.status().to_string();
  EXPECT_LE(limited->total_bytes(), limit);
  EXPECT_EQ(testing::hash_in_process(job, data), hash);
  job.train.memory_limit = "1KiB";
  const Status refused = prepare::estimate_memory(job, kDigits, threads).status();
  EXPECT_EQ(refused.code(), Code::kExhausted);
  EXPECT_NE(refused.message().find("train.memory_limit: got "), std::string::npos) << refused.message();
}

job::Job on_mesh(job::Job job, const char* mesh) {
  job.parallel.mesh = mesh;
  job.options.set(job::kStyle.name, "tensor");
  job::take_workers_of_mesh(job, false);
  return job;
}

TEST(MemoryEstimate, OfAWorkerWithSeveralPartsOfTheModelIsTheirSum) {
  job::Job job = on_mesh(job_of("mnist-mlp", 32), "data=1,model=2");
  job.train.logical_tiles = 4;
  const auto two = prepare::estimate_workers(job, kDigits, 1);
  job.parallel.mesh = "data=1,model=4";
  job.parallel.workers = 4;
  const auto each = prepare::estimate_workers(job, kDigits, 1);
  ASSERT_TRUE(two.ok() && each.ok()) << two.status().to_string();
  ASSERT_EQ(two->size(), 2U);
  ASSERT_EQ(each->size(), 4U);
  EXPECT_EQ((*two)[0], (*each)[0] + (*each)[1]);
  EXPECT_EQ((*two)[1], (*each)[2] + (*each)[3]);
}

TEST(MemoryEstimate, ALimitHoldsForEveryWorkerOfAMesh) {
  const auto data = testing::few_digits(128, 16);
  job::Job job = testing::small_job("mlp", 4, 1);
  job.train.batch = 128;
  const Json wide{{"kind", "dense"}, {"out", 128}}, norm{{"kind", "layer_norm"}};
  job.model.layers = {wide, norm, wide, norm, wide, norm, {{"kind", "classifier"}}};
  job = on_mesh(job, "data=1,model=2");
  job.parallel.transport = "inproc";
  const int threads = std::max(1, runtime::num_cores() / 2);
  const std::string hash = testing::hash_in_process(job, data);
  ASSERT_EQ(hash.size(), 64U);
  const auto most = [&] {
    const auto workers = prepare::estimate_workers(job, kDigits, threads);
    EXPECT_TRUE(workers.ok()) << workers.status().to_string();
    return workers.ok() ? *std::max_element(workers->begin(), workers->end()) : 0;
  };
  const std::int64_t limit = most() - (16 << 10);
  job.train.memory_limit = std::to_string(limit);
  EXPECT_LE(most(), limit);
  EXPECT_EQ(testing::hash_in_process(job, data), hash);
}

TEST(MemoryEstimate, NonsenseIsRefused) {
  job::Job job = job_of("lenet", 0);
  EXPECT_EQ(prepare::estimate_memory(job, kDigits, 1).status().code(), Code::kInvalid);
  job.train.batch = 8;
  job.parallel.workers = 0;
  EXPECT_EQ(prepare::estimate_memory(job, kDigits, 1).status().code(), Code::kInvalid);
  job.parallel.workers = 1;
  EXPECT_EQ(prepare::estimate_memory(job, kDigits, 0).status().code(), Code::kInvalid);
  EXPECT_FALSE(prepare::estimate_memory(job, {Shape{1, 1, 1}, 10}, 1).ok());
}

}  // namespace
}  // namespace trireme::train
