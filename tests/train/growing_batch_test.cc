// Steps of several batches: what a batch that has grown is made of.
#include <gtest/gtest.h>

#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"

namespace trireme::train::testing {
namespace {

// Two batches in every step, from the first on.
job::Job doubled(std::int64_t batch) {
  job::Job job = tiny_job();
  job.train.batch = batch;
  job.train.steps = 12;
  job.train.optimizer.schedule = "step";
  job.train.optimizer.milestones = {0.0};
  job.train.optimizer.factor = 0.5;
  job.train.optimizer.max_batch_multiplier = 2;
  job.train.optimizer.warmup = 0;
  return job;
}

job::Job plain(std::int64_t batch) {
  job::Job job = tiny_job();
  job.train.batch = batch;
  job.train.steps = 6;
  job.train.optimizer.schedule = "constant";
  job.train.optimizer.warmup = 0;
  return job;
}

TEST(GrowingBatch, SeveralBatchesInOneStepAreOneBatchOfTheirSize) {
  const auto data = tiny_pictures(48, 10);
  VirtualRuns runs;
  for (const int workers : {1, 3}) {
    job::Job grown = doubled(12), whole = plain(24);
    grown.parallel.workers = whole.parallel.workers = workers;
    grown.train.optimizer.clip_norm = whole.train.optimizer.clip_norm = workers == 3 ? 0.3 : 0;
    const RunOutcome a = runs.train(grown, data, {.run_dir = ""}),
                     b = runs.train(whole, data, {.run_dir = ""});
    ASSERT_EQ(a.steps.size(), 6U);
    ASSERT_EQ(b.steps.size(), 6U);
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(a.steps[i].samples, 24);
      EXPECT_NEAR(a.steps[i].loss, b.steps[i].loss, 1e-5 * b.steps[i].loss) << "step " << i + 1;
      EXPECT_EQ(a.steps[i].accuracy, b.steps[i].accuracy) << "step " << i + 1;
    }
    EXPECT_NEAR(a.summary().test_loss, b.summary().test_loss, 1e-5 * b.summary().test_loss);
    EXPECT_LT(b.steps.back().loss, 0.9 * b.steps.front().loss) << "it learns";
  }
}

// 40 samples: three batches of 12 and one of 4. The last step of an epoch has 16 samples, which count alike.
TEST(GrowingBatch, AStepEndsWithItsEpochAndCountsItsOwnSamples) {
  VirtualRuns runs;
  const RunOutcome out = runs.train(doubled(12), tiny_pictures(40, 10), {.run_dir = ""});
  std::vector<std::int64_t> samples;
  for (const auto& step : out.steps) samples.push_back(step.samples);
  EXPECT_EQ(samples, (std::vector<std::int64_t>{24, 16, 24, 16, 24, 16}));
  EXPECT_EQ(out.summary().samples, 120);
  EXPECT_EQ(out.summary().epochs, 3);
}

}  // namespace
}  // namespace trireme::train::testing
