// Estimates against the bytes that a real run holds in tensors at its peak. Tensors' memory comes from the
// aligned operator new of the CPU's device, which is counted here; vectors and the samples do not.
#include "trireme/train/memory_estimate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/train/small_jobs.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/train/in_process.h"

namespace {
constexpr std::size_t kHeader = 64;  // room for the size before each block; keeps the alignment
std::atomic<std::int64_t> live_bytes{0}, peak_bytes{0};

void* counted(std::size_t bytes) {
  void* block = std::aligned_alloc(kHeader, (bytes + 2 * kHeader - 1) / kHeader * kHeader);
  if (block == nullptr) return nullptr;
  *static_cast<std::size_t*>(block) = bytes;
  const std::int64_t live = live_bytes += static_cast<std::int64_t>(bytes);
  for (std::int64_t peak = peak_bytes; live > peak && !peak_bytes.compare_exchange_weak(peak, live);) {
  }
  return static_cast<char*>(block) + kHeader;
}
}  // namespace

// NOLINTBEGIN: replaced on purpose. Alignments above the header's do not occur.
void* operator new(std::size_t bytes, std::align_val_t, const std::nothrow_t&) noexcept {
  return counted(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t) {
  if (void* p = counted(bytes)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p, std::align_val_t) noexcept {
  if (p == nullptr) return;
  void* block = static_cast<char*>(p) - kHeader;
  live_bytes -= static_cast<std::int64_t>(*static_cast<std::size_t*>(block));
  std::free(block);
}
void operator delete(void* p, std::size_t, std::align_val_t a) noexcept { ::operator delete(p, a); }
void operator delete(void* p, std::align_val_t a, const std::nothrow_t&) noexcept { ::operator delete(p, a); }
// NOLINTEND

namespace trireme::train {
namespace {

Job job_of(const std::string& model, std::int64_t batch) {
  Job job;
  job.model.name = model;
  job.train.batch = batch;
  job.train.steps = 3;
  job.train.shard_threads = 1;
  return job;
}

std::int64_t measured_bytes(const Job& job, std::shared_ptr<const data::Dataset> data) {
  const std::int64_t before = live_bytes;
  peak_bytes = before;
  InProcessOptions options;
  options.job = job;
  options.data = std::move(data);
  for (const auto& rank : train_in_process(options)) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
  return peak_bytes - before;
}

const model::ModelInput kDigits{Shape{1, 28, 28}, 10};

// Without a run folder nothing is written: no copy for checkpoints.
TEST(MemoryEstimate, IsWithinFivePercentOfWhatARunHoldsAtItsPeak) {
  const auto data = testing::few_digits(600, 100);
  for (const char* name : {"lenet", "mnist-mlp", "linear"}) {
    for (const std::int64_t batch : {32, 256}) {
      const Job job = job_of(name, batch);
      const auto estimate = estimate_memory(job, kDigits, runtime::num_cores());
      ASSERT_TRUE(estimate.ok()) << estimate.status().to_string();
      const auto expected = static_cast<double>(estimate->total_bytes() - estimate->bytes_of("checkpoint"));
      EXPECT_NEAR(static_cast<double>(measured_bytes(job, data)) / expected, 1, 0.05) << name << " " << batch;
    }
  }
}

TEST(MemoryEstimate, CountsEveryShardOfTheBusiestWorker) {
  Job job = job_of("lenet", 60);
  const auto one = estimate_memory(job, kDigits, 1);
  job.train.logical_shards = 6;
  const auto six = estimate_memory(job, kDigits, 1);
  job.parallel.workers = 4;
  const auto two = estimate_memory(job, kDigits, 1);
  ASSERT_TRUE(one.ok() && six.ok() && two.ok());
  EXPECT_EQ(one->shards, 1);
  EXPECT_EQ(six->shards, 6);
  EXPECT_EQ(six->shard_batch, 10);
  EXPECT_EQ(six->bytes_of("buckets"), 6 * one->bytes_of("buckets"));
  EXPECT_EQ(two->shards, 2);
  EXPECT_EQ(2 * six->bytes_of("values"), 6 * two->bytes_of("values"));
  EXPECT_EQ(one->bytes_of("exchange"), 0);
  EXPECT_GT(two->bytes_of("exchange"), 0);
}

TEST(MemoryEstimate, KnowsTheStatesOfOptimisersAndRunningStatistics) {
  Job job = job_of("resnet18", 4);
  const model::ModelInput small{Shape{3, 32, 32}, 10};
  const auto momentum = estimate_memory(job, small, 1);
  job.train.optimizer.kind = "adam";
  const auto adam = estimate_memory(job, small, 1);
  job.train.optimizer.kind = "sgd";
  const auto sgd = estimate_memory(job, small, 1);
  ASSERT_TRUE(momentum.ok() && adam.ok() && sgd.ok());
  EXPECT_EQ(momentum->bytes_of("optimizer"), momentum->bytes_of("parameters"));
  EXPECT_EQ(adam->bytes_of("optimizer"), 2 * momentum->bytes_of("parameters"));
  EXPECT_EQ(sgd->bytes_of("optimizer"), 0);
  EXPECT_EQ(sgd->bytes_of("statistics"), 4 * 9600);
}

TEST(MemoryEstimate, TheLargestBatchFitsAndTheNextDoesNot) {
  Job job = job_of("lenet", 128);
  for (const std::int64_t shards : {0, 4}) {
    job.train.logical_shards = shards;
    const std::int64_t limit = 256 << 20;
    const auto batch = largest_batch(job, kDigits, 1, limit);
    ASSERT_TRUE(batch.ok()) << batch.status().to_string();
    Job at = job;
    at.train.batch = *batch;
    EXPECT_LE(estimate_memory(at, kDigits, 1)->total_bytes(), limit);
    at.train.batch = *batch + 1;
    EXPECT_GT(estimate_memory(at, kDigits, 1)->total_bytes(), limit);
  }
  EXPECT_EQ(*largest_batch(job, kDigits, 1, 1 << 20), 0);
}

TEST(MemoryEstimate, NonsenseIsRefused) {
  Job job = job_of("lenet", 0);
  EXPECT_EQ(estimate_memory(job, kDigits, 1).status().code(), Code::kInvalid);
  job.train.batch = 8;
  job.parallel.workers = 0;
  EXPECT_EQ(estimate_memory(job, kDigits, 1).status().code(), Code::kInvalid);
  job.parallel.workers = 1;
  EXPECT_EQ(estimate_memory(job, kDigits, 0).status().code(), Code::kInvalid);
  EXPECT_FALSE(estimate_memory(job, {Shape{1, 1, 1}, 10}, 1).ok());
}

}  // namespace
}  // namespace trireme::train
