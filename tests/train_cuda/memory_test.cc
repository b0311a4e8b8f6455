// Memory of a GPU: predicted before the run, and refused where it is not there.
#include <gmock/gmock.h>

#include "tests/kernel_cuda/needs_gpu.h"
#include "tests/train/small_jobs.h"
#include "trireme/kernel/cuda/memory_info.h"

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
  static Job job(std::int64_t shards) {
    Job job = testing::small_job("mlp", 4, 1);
    job.train.batch = 32;
    job.train.logical_shards = shards;
    job.train.device = "cuda";
    return job;
  }
  Result<Summary> train(const Job& job) {
    InProcessOptions options;
    options.job = job;
    options.data = data_;
    return train_in_process(options)[0];
  }

  std::shared_ptr<const data::Dataset> data_ = few_digits(100, 20);
  std::shared_ptr<kernel::cuda::CudaDevice> gpu_;
};

TEST_F(GpuMemory, WhatIsPredictedIsWhatIsAllocated) {
  for (const std::int64_t shards : {1, 4}) {
    const Result<Summary> ran = train(job(shards));
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
    Job huge = job(1);
    huge.train.batch = 1 << 20;
    const Result<Summary> refused = train(huge);
    EXPECT_EQ(refused.status().code(), Code::kExhausted);
    EXPECT_THAT(refused.status().message(),
                AllOf(HasSubstr("of GPU memory"), HasSubstr("values "), HasSubstr("are free"),
                      HasSubstr("the largest tensor is '"), HasSubstr("train.batch (got 1048576)")));
  }
  const Result<Summary> ran = train(job(1));
  EXPECT_TRUE(ran.ok()) << ran.status().to_string();
}

}  // namespace
}  // namespace trireme::train
