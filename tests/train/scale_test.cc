// A thousand phantom ranks of one LeNet step in one thread.
#include <gtest/gtest.h>

#include "tests/train/small_jobs.h"

namespace trireme::train {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRanks = 64;
#else
constexpr int kRanks = 1024;
#endif

start::SimulateReport run(const char* collective) {
  start::SimulateOptions options;
  options.job.train.steps = 1;
  options.job.train.batch = 32 * kRanks;
  options.job.parallel.workers = kRanks;
  options.job.parallel.collective = collective;
  options.phantom = true;
  return start::simulate_training(options, nullptr);
}

TEST(Scale, OneLenetStepOfAThousandPhantomRanksTellsItsTimePerPhase) {
  for (const char* collective : {"ring", "fixed-tree"}) {
    const start::SimulateReport report = run(collective);
    ASSERT_TRUE(report.world.finished) << report.world.stuck.substr(0, 300);
    for (const auto& rank : report.ranks) ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    const record::Summary& s = *report.ranks[0];
    std::printf("%s: compute %.3f ms, exposed communication %.3f ms, %llu messages\n", collective,
                1e3 * s.compute_seconds, 1e3 * s.exposed_seconds,
                static_cast<unsigned long long>(report.world.num_messages));
    EXPECT_GT(s.compute_seconds, 0);
    EXPECT_GT(s.exposed_seconds, 0);
    EXPECT_NEAR(s.compute_seconds + s.exposed_seconds + s.data_wait_seconds, s.measured_step_seconds, 1e-9);
  }
}

TEST(Scale, ARingStepCostsWhatItsClosedFormSays) {
  const start::SimulateReport report = run("ring");
  ASSERT_TRUE(report.ranks[0].ok());
  const record::Summary& s = *report.ranks[0];
  EXPECT_NEAR(s.exposed_seconds / s.prediction.exchange_seconds, 1.0, 0.25);
}

}  // namespace
}  // namespace trireme::train
