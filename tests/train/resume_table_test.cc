// Every kind of job: stopped and taken up again, with other workers, and with any number of them, it ends in
// the same bits, the same losses and the same lines of metrics as a run that was left alone.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/train/small_jobs.h"
#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/model/optimizer.h"

namespace trireme::train::testing {
namespace {

job::Job with_workers(job::Job job, int workers) {
  job.parallel.workers = workers;
  return job;
}

class EveryJob : public ::testing::TestWithParam<TinyCase> {
 protected:
  const job::Job& job() const { return GetParam().job; }
  const std::shared_ptr<const data::Dataset>& data() const { return GetParam().data; }
};

void expect_same_end(const record::Summary& got, const record::Summary& expected) {
  ASSERT_EQ(expected.parameters_sha256.size(), 64U);
  EXPECT_EQ(got.parameters_sha256, expected.parameters_sha256);
  EXPECT_EQ(got.steps, expected.steps);
  EXPECT_EQ(got.samples, expected.samples);
  EXPECT_EQ(got.skipped_steps, expected.skipped_steps);
  EXPECT_EQ(got.reached_target, expected.reached_target);
  EXPECT_EQ(got.test_loss, expected.test_loss);
  EXPECT_EQ(got.test_accuracy, expected.test_accuracy);
  EXPECT_TRUE(got.finished);
}

TEST_P(EveryJob, StoppedAndTakenUpAgainByOtherWorkersEndsAsIfLeftAlone) {
  VirtualRuns alone;
  const record::Summary expected = alone.train(job(), data()).summary();
  const std::vector<Json> lines = alone.metrics();
  ASSERT_FALSE(lines.empty());
  int workers = 1;
  for (const std::int64_t stop_at : {1, 3, 4}) {
    SCOPED_TRACE(fmt::format("asked to stop after step {}", stop_at));
    VirtualRuns disturbed;
    const RunOptions stop{.stop_at = stop_at};
    const record::Summary half = disturbed.train(with_workers(job(), workers), data(), stop).summary();
    EXPECT_FALSE(half.finished);
    EXPECT_EQ(half.steps, stop_at + 1);
    EXPECT_NE(half.parameters_sha256, expected.parameters_sha256);
    workers = 1 + workers % 3;
    const RunOutcome rest = disturbed.train(with_workers(job(), workers), data());
    expect_same_end(rest.summary(), expected);
    ASSERT_FALSE(rest.steps.empty());
    EXPECT_EQ(rest.steps.front().step, stop_at + 2) << "goes on where it was";
    EXPECT_EQ(disturbed.metrics(), lines);
  }
}

TEST_P(EveryJob, EndsInTheSameBitsWithOneToFourWorkers) {
  VirtualRuns runs;
  const record::Summary expected = runs.train(job(), data(), {.run_dir = ""}).summary();
  for (const int workers : {2, 3, 4}) {
    SCOPED_TRACE(fmt::format("{} workers", workers));
    expect_same_end(runs.train(with_workers(job(), workers), data(), {.run_dir = ""}).summary(), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, EveryJob, ::testing::ValuesIn(tiny_cases()),
                         [](const auto& info) { return info.param.name; });

const TinyCase& case_of(const std::vector<TinyCase>& cases, std::string_view name) {
  return *std::find_if(cases.begin(), cases.end(), [&](const TinyCase& c) { return c.name == name; });
}

// Threads, their own clocks and the real compute pool.
TEST(EveryJobInProcess, OfThreadsEndsInTheBitsOfTheVirtualMachines) {
  const std::vector<TinyCase> cases = tiny_cases();
  for (const char* name : {"normed", "dropout", "text", "skipping", "growing", "byclass"}) {
    SCOPED_TRACE(name);
    const TinyCase& c = case_of(cases, name);
    VirtualRuns runs;
    const std::string expected = runs.train(c.job, c.data, {.run_dir = ""}).summary().parameters_sha256;
    for (const int workers : {1, 3})
      EXPECT_EQ(hash_in_process(with_workers(c.job, workers), c.data), expected);
  }
}

// The evaluation after that step would have ended the run: it is made up for before anything else.
TEST(Stop, AtTheStepThatReachesTheTargetTrainsNothingBeyondIt) {
  const std::vector<TinyCase> cases = tiny_cases();
  const TinyCase& c = case_of(cases, "target");
  VirtualRuns alone, stopped;
  const record::Summary expected = alone.train(c.job, c.data).summary();
  ASSERT_TRUE(expected.reached_target);
  const record::Summary half = stopped.train(c.job, c.data, {.stop_at = expected.steps - 1}).summary();
  EXPECT_EQ(half.steps, expected.steps);
  EXPECT_FALSE(half.finished);
  const RunOutcome rest = stopped.train(with_workers(c.job, 2), c.data);
  EXPECT_TRUE(rest.steps.empty());
  expect_same_end(rest.summary(), expected);
  EXPECT_EQ(stopped.metrics(), alone.metrics());
}

TEST(Stop, AtTheLastStepEndsTheRunWithItsGrades) {
  const std::vector<TinyCase> cases = tiny_cases();
  const TinyCase& c = case_of(cases, "momentum");
  VirtualRuns alone, stopped;
  const record::Summary expected = alone.train(c.job, c.data).summary();
  expect_same_end(stopped.train(c.job, c.data, {.stop_at = c.job.train.steps - 1}).summary(), expected);
}

TEST(EveryJobTable, HasEveryOptimiserAndDoesWhatItsRowsAreFor) {
  std::vector<std::string> kinds;
  for (const TinyCase& c : tiny_cases()) kinds.push_back(c.job.train.optimizer.kind);
  for (const auto& row : model::optimizer_table())
    EXPECT_NE(std::find(kinds.begin(), kinds.end(), row.name), kinds.end()) << row.name;
  VirtualRuns runs;
  for (const TinyCase& c : tiny_cases()) {
    ASSERT_TRUE(job::check_job(c.job).ok()) << c.name << ": " << job::check_job(c.job).to_string();
    if (c.name != "skipping" && c.name != "growing" && c.name != "target") continue;
    const record::Summary s = runs.train(c.job, c.data, {.run_dir = ""}).summary();
    EXPECT_EQ(s.skipped_steps > 0, c.name == "skipping");
    if (c.name == "growing") {
      EXPECT_EQ(s.steps, 10) << "of 16 batches";
    }
    if (c.name == "target") {
      EXPECT_TRUE(s.reached_target);
      EXPECT_GT(s.steps, 5) << "later than the stops";
      EXPECT_LT(s.steps, 60);
    }
  }
}

}  // namespace
}  // namespace trireme::train::testing
