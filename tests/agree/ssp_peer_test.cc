#include "trireme/agree/agree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/agree/quadratic.h"

namespace trireme::agree {
namespace {

using testing::QuadraticJob;
using testing::QuadraticRun;
using testing::Vector;
using Trace = std::vector<Vector>;

QuadraticJob two_workers(std::int64_t staleness) {
  QuadraticJob job;
  job.rule = "ssp-peer";
  job.letters = true;
  job.options.own.set("staleness", staleness);
  job.workers = 2;
  job.steps = 3;
  job.start = {8};
  job.a = {1, 0.5F};
  job.b = {0, 16};
  return job;
}

TEST(SspPeer, WithoutStalenessWorkersKeepStepWhateverTheirSpeed) {
  for (const TimeNs slow : {kMilli, 4 * kMilli}) {
    QuadraticJob job = two_workers(0);
    job.compute_ns = {kMilli, slow};
    const QuadraticRun run = run_well(job);
    // Both at 8: -4/2 and +2/2; both at 7: -3.5/2 and +2.25/2; both at 6.375.
    EXPECT_EQ(run.workers[0].trace, (Trace{{6}, {5.25F}, {4.78125F}}));
    EXPECT_EQ(run.workers[1].trace, (Trace{{9}, {8.125F}, {7.578125F}}));
    for (const auto& worker : run.workers) {
      EXPECT_EQ(worker.settled, (Trace{{5.984375F}}));
      EXPECT_EQ(worker.report.more["max_lead"], 0);
      const std::map<std::int64_t, std::int64_t> none_behind{{0, 3}};
      EXPECT_EQ(worker.report.staleness, none_behind);
    }
  }
}

// The fast one computes clocks 0 and 1 alone, waits for the other's clock 0 (2.5 ms), and computes clock 2.
TEST(SspPeer, AWorkerAheadByTheBoundWaitsForTheSlowest) {
  QuadraticJob job = two_workers(1);
  job.steps_of = {3, 2};
  job.compute_ns = {kMilli, 2500 * kMicro};
  const QuadraticRun run = run_well(job);
  EXPECT_EQ(run.workers[0].trace, (Trace{{6}, {4.5F}, {4.125F}}));  // 4.5 + 1 - 2.75/2
  EXPECT_EQ(run.workers[1].trace, (Trace{{9}, {6.8125F}}));         // 9 - 2 - 1.5 + 2.625/2
  EXPECT_EQ(run.workers[0].settled, (Trace{{5.4375F}}));
  EXPECT_GT(run.workers[0].ended[2], 3500 * kMicro);
  EXPECT_EQ(run.workers[0].report.more["max_lead"], 1);
  EXPECT_GT(run.workers[0].report.more["waited_seconds"].get<double>(), 0.0004);
}

QuadraticJob noisy(std::uint64_t seed, std::int64_t staleness) {
  QuadraticJob job = testing::noisy_job("ssp-peer", 4, seed);
  job.options.own.set("staleness", staleness);
  return job;
}

TEST(SspPeer, WithoutStalenessItIsSynchronousSgd) {
  QuadraticJob job = noisy(2, 0);
  job.steps = 50;
  job.compute_ns = {kMilli, 3 * kMilli, kMilli, 2 * kMilli};
  const QuadraticRun run = run_well(job);
  for (std::size_t elem = 0; elem < 8; ++elem) {
    float x = 0;
    for (std::int64_t step = 0; step < job.steps; ++step) {
      float sum = 0;
      for (int w = 0; w < job.workers; ++w) sum += job.gradient({w, step, elem, x});
      x -= job.learning_rate * sum / 4;
    }
    for (const auto& worker : run.workers) EXPECT_NEAR(worker.settled[0][elem], x, 1e-5);
  }
}

// Watches from outside: how far the gradient of a worker is ahead of the steps that the slowest has ended.
struct Watch {
  std::vector<std::int64_t> ended;
  std::int64_t most = 0;

  explicit Watch(QuadraticJob& job) : ended(static_cast<std::size_t>(job.workers)) {
    const auto gradient = job.gradient;
    job.gradient = [this, gradient](const testing::GradientAt& at) {
      most = std::max(most, at.step - *std::min_element(ended.begin(), ended.end()));
      return gradient(at);
    };
    job.after_step = [this](int worker, std::int64_t step, Agreement&) {
      ended[static_cast<std::size_t>(worker)] = step + 1;
    };
  }
};

TEST(SspPeer, TheBoundHoldsAndIsUsedWithOneWorkerFourTimesSlower) {
  for (const std::int64_t staleness : {0, 1, 3}) {
    QuadraticJob job = noisy(5, staleness);
    job.steps = 60;
    job.compute_ns = {kMilli, kMilli, 4 * kMilli, kMilli};
    Watch watch(job);
    const QuadraticRun run = run_well(job);
    EXPECT_EQ(watch.most, staleness);
    for (const auto& worker : run.workers)
      EXPECT_LE(worker.report.more["max_lead"].get<std::int64_t>(), staleness);
    const auto& of_fast = run.workers[0].report.staleness;
    ASSERT_FALSE(of_fast.empty());
    EXPECT_EQ(of_fast.rbegin()->first > 0, staleness > 0);
    EXPECT_LE(of_fast.rbegin()->first, staleness);
  }
}

TEST(SspPeer, MeetingsBeforeEverybodyIsEquallyFarDoNotHang) {
  QuadraticJob job = noisy(6, 2);
  job.steps_of = {60, 45, 20, 60};  // as leases would share it out
  job.compute_ns = {kMilli, 1300 * kMicro, 4 * kMilli, kMilli};
  const QuadraticRun run = run_well(job);
  for (const auto& worker : run.workers) EXPECT_EQ(worker.settled, run.workers[0].settled);
}

// A worker that takes only every `every`-th of its steps, so that clocks differ when workers meet.
class Lazy final : public Agreement {
 public:
  Lazy(std::unique_ptr<Agreement> rule, std::int64_t every) : rule_(std::move(rule)), every_(every) {}
  runtime::Task<Status> begin_step(StepInfo step) override {
    awake_ = step.step % every_ == 0;
    if (awake_) co_return co_await rule_->begin_step(step);
    co_return Status();
  }
  runtime::Task<Status> exchange(BucketExchange bucket) override {
    if (awake_) co_return co_await rule_->exchange(std::move(bucket));
    for (float& g : bucket.gradient.values<float>()) g = 0;
    co_return Status();
  }
  runtime::Task<Status> end_step(StepInfo step) override {
    if (awake_) co_return co_await rule_->end_step(step);
    co_return Status();
  }
  runtime::Task<Status> settle(std::vector<Tensor> into) override { return rule_->settle(std::move(into)); }
  runtime::Task<Status> finish() override { return rule_->finish(); }
  void on_lost(int worker) override { rule_->on_lost(worker); }
  RuleReport report() const override { return rule_->report(); }

 private:
  std::unique_ptr<Agreement> rule_;
  std::int64_t every_;
  bool awake_ = true;
};

TEST(SspPeer, AWorkerAtAMeetingIsNotWaitedFor) {
  QuadraticJob job = noisy(9, 2);
  job.steps = 80;
  job.settle_every = 20;
  job.make_rule = [](const RuleContext& context) -> std::unique_ptr<Agreement> {
    return std::make_unique<Lazy>((*find_agreement("ssp-peer"))->make(context), context.worker == 2 ? 5 : 1);
  };
  const QuadraticRun run = run_well(job);
  for (const auto& worker : run.workers) {
    ASSERT_EQ(worker.settled.size(), 4U);
    EXPECT_EQ(worker.settled, run.workers[0].settled);
    EXPECT_LE(worker.report.more["max_lead"].get<std::int64_t>(), 2);  // of those that step
  }
  // It slept through four of five steps, and the others waited for it until it came to the meeting.
  EXPECT_EQ(run.workers[2].report.more["updates_sent"], 16);
  EXPECT_EQ(run.workers[0].report.more["updates_sent"], 80);
  EXPECT_GT(run.workers[0].report.more["waited_seconds"].get<double>(), 0.02);
}

TEST(SspPeer, ConvergesFromManySeeds) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    QuadraticJob job = noisy(seed, 3);
    job.settle_every = 100;
    const QuadraticRun run = run_well(job);
    for (const auto& worker : run.workers) {
      ASSERT_EQ(worker.settled.size(), 3U);
      EXPECT_EQ(worker.settled, run.workers[0].settled) << "seed " << seed;
      EXPECT_LT(worker.report.more["settle_difference"].get<float>(), 1e-4) << "seed " << seed;
      for (std::size_t i = 0; i < 8; ++i)
        EXPECT_NEAR(worker.settled.back()[i], 1.5F + static_cast<float>(i), 0.2) << "seed " << seed;
    }
  }
}

// The answer that it waits for and the next updates of the others lie together in its mailbox when it wakes
// up.
TEST(SspPeer, AWorkerThatWasNotScheduledForAWhileGoesOn) {
  for (const std::int64_t staleness : {0, 1})
    for (TimeNs at = 10 * kMilli; at < 15 * kMilli; at += 100 * kMicro) {
      QuadraticJob job = two_workers(staleness);
      job.options.own.set("in_flight", 4);
      job.steps = 30;
      job.compute_ns = {kMilli, 3 * kMilli};
      runtime::FaultSpec pause;
      pause.kind = runtime::FaultSpec::Kind::kPause;
      pause.runtime = 0;
      pause.at = at;
      pause.duration = 20 * kMilli;
      job.world.faults = {pause};
      const QuadraticRun run = testing::run(job);
      for (const auto& worker : run.workers)
        ASSERT_TRUE(worker.status.ok()) << "paused at " << at << ": " << worker.status.to_string();
      EXPECT_EQ(run.workers[0].settled, run.workers[1].settled);
    }
}

TEST(SspPeer, NobodyWaitsForAWorkerThatDied) {
  QuadraticJob job = noisy(8, 1);
  job.expendable = true;
  runtime::FaultSpec kill;
  kill.runtime = 2;
  kill.at = 50 * kMilli;
  job.world.faults = {kill};
  const QuadraticRun run = testing::run(job);
  EXPECT_TRUE(run.workers[2].dead);
  for (const std::size_t w : {0U, 1U, 3U}) {
    EXPECT_TRUE(run.workers[w].status.ok()) << run.workers[w].status.to_string();
    EXPECT_EQ(run.workers[w].trace.size(), 300U);
    ASSERT_EQ(run.workers[w].settled.size(), 1U);
    EXPECT_EQ(run.workers[w].settled, run.workers[0].settled);
    for (std::size_t i = 0; i < 8; ++i)  // centres 0, 1 and 3
      EXPECT_NEAR(run.workers[w].settled[0][i], 4.0F / 3 + static_cast<float>(i), 0.2);
  }
}

TEST(SspPeer, EverybodyGetsTheVerdictWhenWorkerZeroDies) {
  QuadraticJob job = noisy(8, 1);
  job.expendable = true;
  runtime::FaultSpec kill;
  kill.runtime = 0;
  kill.at = 50 * kMilli;
  job.world.faults = {kill};
  const QuadraticRun run = testing::run(job);
  for (std::size_t w = 1; w < 4; ++w) {
    EXPECT_FALSE(run.workers[w].status.ok());
    EXPECT_EQ(run.workers[w].status.context().peer.value_or(-1), 0) << run.workers[w].status.to_string();
  }
}

TEST(SspPeer, APhantomRunTakesTheSameTime) {
  QuadraticJob job = noisy(3, 1);
  job.steps = 20;
  job.compute_ns = {kMilli, 2 * kMilli, kMilli, kMilli};
  const QuadraticRun real = run_well(job);
  job.world.phantom = true;
  const QuadraticRun phantom = run_well(job);
  EXPECT_EQ(phantom.world.end_time, real.world.end_time);
  EXPECT_EQ(phantom.workers[1].report.staleness, real.workers[1].report.staleness);
}

}  // namespace
}  // namespace trireme::agree
