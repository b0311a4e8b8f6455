// Training on a GPU: against the host, against itself, resumed; and what is said where there is none.
#include <gmock/gmock.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "tests/kernel_cuda/needs_gpu.h"
#include "tests/train/small_jobs.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::train {
namespace {

using ::testing::AllOf;
using testing::few_digits;
using testing::hash_in_process;
using ::testing::HasSubstr;

std::string why_no_gpu() {
  static const auto opened = kernel::cuda::open_device(0);
  return opened.ok() ? "" : opened.status().message();
}

struct Losses : record::Progress {
  void on_step(const Step& step) override { values.push_back(step.loss); }
  std::vector<double> values;
};

class TrainOnGpu : public ::testing::Test {
 protected:
  TrainOnGpu() {
    std::string pattern = ::testing::TempDir() + "trireme-gpu-XXXXXX";
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    std::filesystem::create_directories(dir_ + "/checkpoints");
  }
  ~TrainOnGpu() override { std::filesystem::remove_all(dir_); }

  // 12 steps of 32 digits. One shard stays on the GPU, several meet on the host.
  static job::Job job(const std::string& device, std::int64_t shards = 1, int workers = 1) {
    job::Job job = testing::small_job("mlp", 12, workers);
    job.train.batch = 32;
    job.train.logical_shards = shards;
    job.train.device = device;
    return job;
  }
  Result<record::Summary> train(const job::Job& job, record::Progress* progress = nullptr,
                                bool in_folder = false) {
    start::InProcessOptions options;
    options.job = job;
    options.data = data_;
    options.progress = progress;
    if (in_folder) options.run_dir = dir_;
    return start::train_in_process(options)[0];
  }
  void expect_same_losses(const std::string& precision, double most) {
    for (const std::int64_t shards : {1, 4}) {
      Losses here, there;
      for (auto& [device, losses] : {std::pair{"cpu", &here}, std::pair{"cuda", &there}}) {
        job::Job j = job(device, shards);
        j.train.precision = precision;
        const Result<record::Summary> ran = train(j, losses);
        ASSERT_TRUE(ran.ok()) << ran.status().to_string();
        EXPECT_EQ(ran->device, device);
      }
      ASSERT_EQ(here.values.size(), 12U);
      ASSERT_EQ(there.values.size(), 12U);
      for (std::size_t i = 0; i < 12; ++i)
        EXPECT_NEAR(there.values[i], here.values[i], most) << shards << " shards, step " << i + 1;
    }
  }

  std::shared_ptr<const data::Dataset> data_ = few_digits(100, 20);
  std::string dir_;
};

TEST_F(TrainOnGpu, LossesAreThoseOfTheHostWithinRounding) {
  TR_NEEDS_GPU(why_no_gpu());
  expect_same_losses("f32", 1e-3);
  expect_same_losses("bf16", 3e-2);
}

TEST_F(TrainOnGpu, TheSameJobEndsInTheSameBits) {
  TR_NEEDS_GPU(why_no_gpu());
  const std::string once = hash_in_process(job("cuda"), data_);
  ASSERT_EQ(once.size(), 64U);
  EXPECT_EQ(hash_in_process(job("cuda"), data_), once);
}

// A traced step is waited for, kernel by kernel; others follow each other on the GPU.
TEST_F(TrainOnGpu, StepsThatAreWaitedForEndInTheSameBits) {
  TR_NEEDS_GPU(why_no_gpu());
  job::Job plain = job("cuda"), clipped = job("cuda"), scaled = job("cuda");
  clipped.train.optimizer.clip_norm = 0.1;
  scaled.train.precision = "f16";
  for (job::Job* j : {&plain, &clipped, &scaled}) {
    const std::string alone = hash_in_process(*j, data_);
    ASSERT_EQ(alone.size(), 64U);
    j->train.trace_steps = 100;
    EXPECT_EQ(hash_in_process(*j, data_), alone);
  }
}

TEST_F(TrainOnGpu, ALossThatIsNotANumberEndsTheRunAndIsExplained) {
  TR_NEEDS_GPU(why_no_gpu());
  for (const char* precision : {"f32", "bf16"}) {
    SCOPED_TRACE(precision);
    job::Job wild = job("cuda");
    wild.train.precision = precision;
    wild.train.optimizer.lr = 1e30;
    const Result<record::Summary> ran = train(wild);
    EXPECT_THAT(ran.status().message(), AllOf(HasSubstr("the loss is not a number at step "),
                                              HasSubstr("the first tensor that broke: ")));
  }
}

// Checkpoints and the hash of the model copy it to the host.
TEST_F(TrainOnGpu, AGpuThatFailsWhenTheModelIsCopiedIsNamedInTheError) {
  TR_NEEDS_GPU(why_no_gpu());
  for (const bool in_folder : {false, true}) {
    ASSERT_EQ(setenv("GPU_EMULATOR_FAILING_COPY_BYTES", "10000", 1), 0);
    const Result<record::Summary> ran = train(job("cuda"), nullptr, in_folder);
    ASSERT_EQ(unsetenv("GPU_EMULATOR_FAILING_COPY_BYTES"), 0);
    if (ran.ok()) GTEST_SKIP() << "this GPU is a real one, which a test does not make fail";
    EXPECT_THAT(ran.status().message(),
                AllOf(HasSubstr("the model could not be copied from GPU "), HasSubstr("rank 0")));
  }
}

TEST_F(TrainOnGpu, OneTwoAndFourWorkersEndInTheSameBits) {
  TR_NEEDS_GPU(why_no_gpu());
  const std::string alone = hash_in_process(job("cuda", 4), data_);
  ASSERT_EQ(alone.size(), 64U);
  for (const int workers : {2, 4})
    EXPECT_EQ(hash_in_process(job("cuda", 4, workers), data_), alone) << workers;
}

// Interrupts itself after the first step, as Ctrl-C would.
struct StopEarly : record::Progress {
  void on_step(const Step& step) override {
    if (step.step == 1) std::raise(SIGINT);
  }
};

TEST_F(TrainOnGpu, AStoppedRunGoesOnToTheBitsOfOneThatWasNotStopped) {
  TR_NEEDS_GPU(why_no_gpu());
  const std::string whole = hash_in_process(job("cuda"), data_);
  StopEarly stop;
  start::InProcessOptions options;
  options.job = job("cuda");
  options.data = data_;
  options.run_dir = dir_;
  options.progress = &stop;
  options.handle_interrupt = true;
  const Result<record::Summary> stopped = start::train_in_process(options)[0];
  ASSERT_TRUE(stopped.ok()) << stopped.status().to_string();
  EXPECT_FALSE(stopped->finished);
  EXPECT_LT(stopped->steps, 12);
  EXPECT_EQ(hash_in_process(job("cuda"), data_, dir_), whole);
}

TEST_F(TrainOnGpu, APlanMadeOnAGpuIsRefusedOnTheHost) {
  TR_NEEDS_GPU(why_no_gpu());
  ASSERT_TRUE(train(job("cuda"), nullptr, true).ok());
  const Result<record::Summary> refused = train(job("cpu"), nullptr, true);
  EXPECT_EQ(refused.status().code(), Code::kInvalid);
  EXPECT_THAT(refused.status().message(),
              AllOf(HasSubstr("made on a GPU"), HasSubstr("--device cuda"), HasSubstr("new run folder")));
}

TEST_F(TrainOnGpu, APlanMadeOnTheHostIsRefusedOnAGpu) {
  TR_NEEDS_GPU(why_no_gpu());
  ASSERT_TRUE(train(job("cpu"), nullptr, true).ok());
  const Result<record::Summary> refused = train(job("cuda"), nullptr, true);
  EXPECT_EQ(refused.status().code(), Code::kInvalid);
  EXPECT_THAT(refused.status().message(),
              AllOf(HasSubstr("made on the host"), HasSubstr("--device cpu"), HasSubstr("new run folder")));
}

// Where there is a GPU the first of these asks for nothing that is missing, and trains.
TEST_F(TrainOnGpu, WithoutADriverTheErrorNamesWhatIsMissingAndAutoTrainsOnTheHost) {
  const Result<record::Summary> asked = train(job("cuda"));
  const Result<record::Summary> automatic = train(job("auto"));
  ASSERT_TRUE(automatic.ok()) << automatic.status().to_string();
  if (why_no_gpu().empty()) {
    ASSERT_TRUE(asked.ok()) << asked.status().to_string();
    EXPECT_EQ(automatic->device, "cuda");
    return;
  }
  EXPECT_EQ(automatic->device, "cpu");
  ASSERT_FALSE(asked.ok());
  EXPECT_THAT(asked.status().message(), HasSubstr("--device cpu"));
  if (why_no_gpu().find("driver cannot be loaded") != std::string::npos) {
    EXPECT_THAT(asked.status().message(), HasSubstr("libcuda.so.1"));
  }
}

}  // namespace
}  // namespace trireme::train
