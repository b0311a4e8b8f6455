#include "trireme/agree/agree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/agree/quadratic.h"

namespace trireme::agree {
namespace {

using ::testing::ElementsAre;
using testing::QuadraticJob;
using testing::QuadraticRun;
using testing::run_well;
using testing::Vector;

QuadraticJob two_workers() {
  QuadraticJob job;
  job.rule = "none";
  job.steps = 3;
  job.start = {8};
  job.b = {0, 4};
  return job;
}

TEST(None, WorkersTrainAloneAndTheModelIsTheFirstWorkers) {
  QuadraticJob job = two_workers();
  job.settle_every = 2;
  job.bucket_elems = {1, 1};
  const QuadraticRun r = run_well(job);
  EXPECT_THAT(r.workers[0].trace, ElementsAre(Vector{4, 4}, Vector{2, 2}, Vector{1, 1}));
  EXPECT_THAT(r.workers[1].trace, ElementsAre(Vector{6, 6}, Vector{5, 5}, Vector{4.5, 4.5}));
  for (const auto& w : r.workers) {
    EXPECT_THAT(w.settled, ElementsAre(Vector{2, 2}, Vector{1, 1}));
    EXPECT_EQ(w.report.exchanges, 0);
  }
}

TEST(None, NobodyWaitsForASlowWorkerBeforeTheyMeet) {
  QuadraticJob job = two_workers();
  job.compute_ns = {kMilli, 4 * kMilli};
  const QuadraticRun r = run_well(job);
  for (std::size_t step = 0; step < 3; ++step) {
    const auto steps = static_cast<TimeNs>(step + 1);
    EXPECT_EQ(r.workers[0].ended[step] - r.workers[0].began, steps * kMilli);
    EXPECT_EQ(r.workers[1].ended[step] - r.workers[1].began, 4 * steps * kMilli);
  }
}

TEST(None, APhantomRunTakesTheSameTime) {
  QuadraticJob job = two_workers();
  job.bucket_elems = {100'000};
  const QuadraticRun real = run_well(job);
  job.world.phantom = true;
  const QuadraticRun phantom = run_well(job);
  EXPECT_EQ(phantom.world.end_time, real.world.end_time);
}

}  // namespace
}  // namespace trireme::agree
