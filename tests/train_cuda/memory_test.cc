// Memory of a GPU: predicted before the run, refused where it is not there, less of it where a limit asks for
// that.
#include <gmock/gmock.h>

#include "tests/kernel_cuda/needs_gpu.h"
#include "tests/train/small_jobs.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::train {
namespace {

using ::testing::AllOf;
using testing::few_digits;
using ::testing::HasSubstr;

class GpuMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    static const auto opened = kernel::cuda::open_device(0);
    TR_NEEDS_GPU(opened.ok() ? "" : opened.status().message());
    gpu_ = *opened;
  }
  static job::Job job(std::int64_t shards) {
    job::Job job = testing::small_job("mlp", 4, 1);
    job.train.batch = 32;
    job.train.logical_shards = shards;
    job.train.device = "cuda";
    return job;
  }
  Result<record::Summary> train(const job::Job& job) {
    start::InProcessOptions options;
    options.job = job;
    options.data = data_;
    return start::train_in_process(options)[0];
  }

  std::shared_ptr<const data::Dataset> data_ = few_digits(100, 20);
  std::shared_ptr<kernel::cuda::CudaDevice> gpu_;
};

TEST_F(GpuMemory, WhatIsPredictedIsWhatIsAllocated) {
  for (const std::int64_t shards : {1, 4}) {
    const Result<record::Summary> ran = train(job(shards));
    ASSERT_TRUE(ran.ok()) << ran.status().to_string();
    const Json memory = ran->rule.at("gpu_memory");
    const auto measured = memory.at("measured_bytes").get<double>();
    EXPECT_GT(measured, 0);
    EXPECT_NEAR(memory.at("predicted_bytes").get<double>(), measured, 0.02 * measured) << shards << " shards";
  }
}

TEST_F(GpuMemory, AJobThatDoesNotFitIsRefusedBeforeItStartsAndTheNextOneTrains) {
  constexpr std::size_t kLeft = std::size_t{1} << 30U;
  const kernel::cuda::MemoryInfo before = kernel::cuda::memory_info(*gpu_);
  {
    Buffer taken;
    if (before.free_bytes > kLeft) {
      Result<Buffer> most = kernel::cuda::as_device(*gpu_).allocate(before.free_bytes - kLeft);
      ASSERT_TRUE(most.ok()) << most.status().to_string();
      taken = std::move(*most);
    }
    job::Job huge = job(1);
    huge.train.batch = 1 << 20;
    const Result<record::Summary> refused = train(huge);
    EXPECT_EQ(refused.status().code(), Code::kExhausted);
    EXPECT_THAT(refused.status().message(),
                AllOf(HasSubstr("of GPU memory"), HasSubstr("values "), HasSubstr("are free"),
                      HasSubstr("the largest tensor is '"), HasSubstr("train.batch (got 1048576)"),
                      HasSubstr("train.memory_limit = ")));
  }
  const Result<record::Summary> ran = train(job(1));
  EXPECT_TRUE(ran.ok()) << ran.status().to_string();
}

std::int64_t bytes_of(const record::Summary& summary, const char* which) {
  return summary.rule.at("gpu_memory").at(which).get<std::int64_t>();
}

// What a norm gives is kept for the next layer's weights, though what it was made of is kept as well.
TEST_F(GpuMemory, UnderALimitValuesAreComputedAgainAndTheBitsAreTheSame) {
  job::Job limited = job(1);
  limited.train.batch = 128;
  const Json wide{{"kind", "dense"}, {"out", 128}}, norm{{"kind", "layer_norm"}};
  limited.model.layers = {wide, norm, wide, norm, wide, norm, {{"kind", "classifier"}}};
  const Result<record::Summary> free = train(limited);
  ASSERT_TRUE(free.ok()) << free.status().to_string();
  const std::int64_t limit = bytes_of(*free, "predicted_bytes") - (32 << 10);
  limited.train.memory_limit = std::to_string(limit);
  const Result<record::Summary> ran = train(limited);
  ASSERT_TRUE(ran.ok()) << ran.status().to_string();
  EXPECT_LE(bytes_of(*ran, "predicted_bytes"), limit);
  EXPECT_LT(bytes_of(*ran, "measured_bytes"), bytes_of(*free, "measured_bytes"));
  EXPECT_EQ(ran->parameters_sha256, free->parameters_sha256);
}

TEST_F(GpuMemory, ALimitThatCannotBeKeptIsRefused) {
  job::Job limited = job(1);
  limited.train.memory_limit = "1KiB";
  const Result<record::Summary> refused = train(limited);
  EXPECT_EQ(refused.status().code(), Code::kExhausted);
  EXPECT_THAT(refused.status().message(),
              AllOf(HasSubstr("train.memory_limit: got "), HasSubstr("expected at most 1.0 KiB"),
                    HasSubstr("train.batch")));
}

}  // namespace
}  // namespace trireme::train
