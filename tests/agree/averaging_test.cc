#include "trireme/agree/agree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/agree/quadratic.h"
#include "trireme/base/rng.h"

namespace trireme::agree {
namespace {

using ::testing::ElementsAre;
using testing::GradientAt;
using testing::QuadraticJob;
using testing::QuadraticRun;
using testing::run_well;
using testing::Vector;

QuadraticJob two_workers(std::int64_t period, std::int64_t steps) {
  return testing::two_workers_from_eight("averaging", period, steps);
}

TEST(Averaging, TwoWorkersFollowTheTraceComputedByHand) {
  const QuadraticRun r = run_well(two_workers(2, 5));
  EXPECT_THAT(r.workers[0].trace,
              ElementsAre(Vector{4}, Vector{3.5}, Vector{1.75}, Vector{2.375}, Vector{1.1875}));
  EXPECT_THAT(r.workers[1].trace,
              ElementsAre(Vector{6}, Vector{3.5}, Vector{3.75}, Vector{2.375}, Vector{3.1875}));
  for (const auto& w : r.workers) {
    EXPECT_THAT(w.settled, ElementsAre(Vector{2.1875}));
    EXPECT_EQ(w.report.exchanges, 2);
  }
  EXPECT_EQ(r.workers[0].report.more.dump(), R"({"outer_steps":2,"period":2,"outer":"average"})");
  EXPECT_TRUE(r.workers[1].report.more.empty()) << "reports are added up";
  EXPECT_EQ(r.workers[0].weights, Vector{1.1875}) << "settle() changes no weights";
}

TEST(Averaging, ThreeWorkersFollowTheTraceComputedByHand) {
  QuadraticJob job = two_workers(1, 2);
  job.workers = 3;
  job.start = {0};
  job.b = {0, 3, 6};
  const QuadraticRun r = run_well(job);  // 0, 1.5, 3; then 0.75, 2.25, 3.75
  for (const auto& w : r.workers) EXPECT_THAT(w.trace, ElementsAre(Vector{1.5}, Vector{2.25}));
}

TEST(Averaging, ModelsSettledOnTheWayAreMeansAndChangeNothing) {
  QuadraticJob job = two_workers(2, 4);
  const QuadraticRun plain = run_well(job);
  job.settle_every = 1;
  const QuadraticRun settled = run_well(job);
  for (std::size_t w = 0; w < 2; ++w) {
    EXPECT_EQ(settled.workers[w].trace, plain.workers[w].trace);
    EXPECT_THAT(settled.workers[w].settled, ElementsAre(Vector{5}, Vector{3.5}, Vector{2.75}, Vector{2.375}));
  }
}

TEST(Averaging, BlockMomentumFollowsTheTraceComputedByHand) {
  QuadraticJob job = two_workers(1, 4);
  job.options.own.set("outer", "sgd");
  job.options.own.set("outer_momentum", 0.5);
  const QuadraticRun r = run_well(job);  // means 5, 3.5, 2, 1.25; v = 3, 3, 1.5, 0
  for (const auto& w : r.workers)
    EXPECT_THAT(w.trace, ElementsAre(Vector{5}, Vector{2}, Vector{0.5}, Vector{0.5}));
}

TEST(Averaging, OuterNesterovFollowsTheTraceComputedByHand) {
  QuadraticJob job = two_workers(1, 2);
  job.options.own.set("outer", "nesterov");
  job.options.own.set("outer_lr", 0.5);
  job.options.own.set("outer_momentum", 0.5);
  const QuadraticRun r = run_well(job);  // means 5, 3.875; v = 3, 3.375; steps 4.5, 3.5625
  for (const auto& w : r.workers) EXPECT_THAT(w.trace, ElementsAre(Vector{5.75}, Vector{3.96875}));
}

TEST(Averaging, RunningStatisticsAreAveragedWithoutMomentum) {
  QuadraticJob job = two_workers(1, 4);
  const QuadraticRun plain = run_well(job);
  job.bucket_elems = {3};
  job.parameter_elems = {2};
  job.options.own.set("outer", "sgd");
  job.options.own.set("outer_momentum", 0.5);
  const QuadraticRun r = run_well(job);
  for (std::size_t step = 0; step < 4; ++step) {
    const Vector& x = r.workers[0].trace[step];
    EXPECT_EQ(x[2], plain.workers[0].trace[step][0]) << step;
    EXPECT_EQ(x[0], x[1]);
    EXPECT_EQ(x[0] == x[2], step == 0) << step;
  }
}

// Noise that dies away, from a seed.
float noisy(const GradientAt& at, std::uint64_t seed, float b) {
  Philox random(seed, (static_cast<std::uint64_t>(at.worker) << 40) | (at.elem << 32) |
                          static_cast<std::uint64_t>(at.step));
  return at.x - b + random.next_normal() * std::pow(0.9F, static_cast<float>(at.step));
}

// Synchronous SGD: every worker applies the sum over workers, so the rate is a quarter of the mean's.
class SumOfAll final : public Agreement {
 public:
  explicit SumOfAll(comm::Group& workers) : workers_(workers) {}
  runtime::Task<Status> exchange(BucketExchange bucket) override {
    comm::Call call;
    call.step = bucket.step;
    call.slot = static_cast<std::uint16_t>(bucket.bucket);
    co_return co_await workers_.allreduce(std::move(call), bucket.gradient);
  }

 private:
  comm::Group& workers_;
};

TEST(Averaging, APeriodOfOneIsSynchronousSgdWithinRounding) {
  QuadraticJob job;
  job.rule = "averaging";
  job.options.own.set("period", 1);
  job.workers = 4;
  job.steps = 40;
  job.start = {3};
  job.bucket_elems = {5, 3};
  job.learning_rate = 0.25F;
  job.gradient = [](const GradientAt& at) { return noisy(at, 7, static_cast<float>(at.worker)); };
  const QuadraticRun averaged = run_well(job);
  job.make_rule = [](const RuleContext& context) -> std::unique_ptr<Agreement> {
    return std::make_unique<SumOfAll>(*context.workers);
  };
  job.learning_rate /= 4;
  const QuadraticRun synchronous = testing::run(job);  // it does not settle
  for (std::size_t w = 0; w < 4; ++w)
    for (std::size_t step = 0; step < 40; ++step)
      for (std::size_t i = 0; i < 8; ++i)
        EXPECT_NEAR(averaged.workers[w].trace[step][i], synchronous.workers[w].trace.at(step)[i], 2e-6F)
            << "worker " << w << " step " << step << " element " << i;
}

TEST(Averaging, EveryOuterOptimiserConvergesFromManySeedsWithTheSameBitsEverywhere) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Philox random(seed);
    std::vector<float> b;
    for (int w = 0; w < 4; ++w) b.push_back(4 * random.next_normal());
    QuadraticJob job;
    job.rule = "averaging";
    job.workers = 4;
    job.steps = 120;
    job.start = {5 * random.next_normal()};
    job.bucket_elems = {3, 2};
    job.learning_rate = 0.2F;
    job.options.own.set("period", 1 + static_cast<std::int64_t>(seed % 6));
    job.options.own.set("outer", std::vector<std::string>{"average", "sgd", "nesterov"}[seed % 3]);
    job.options.own.set("outer_lr", 0.7);
    job.options.own.set("outer_momentum", 0.3);
    job.gradient = [&](const GradientAt& at) {
      return noisy(at, seed, b[static_cast<std::size_t>(at.worker)]);
    };
    const QuadraticRun r = run_well(job);
    for (const auto& w : r.workers) {
      EXPECT_EQ(w.settled, r.workers[0].settled) << "seed " << seed;
      EXPECT_EQ(w.report.exchanges, 120 / job.options.own.integer(kPeriod)) << "seed " << seed;
      for (const float x : w.settled.at(0))
        EXPECT_NEAR(x, (b[0] + b[1] + b[2] + b[3]) / 4, 2e-2F) << "seed " << seed;
    }
  }
}

TEST(Averaging, ARestoredRunGoesOnBitForBitInTheMiddleOfAPeriod) {
  QuadraticJob job = two_workers(3, 9);
  job.learning_rate = 0.3F;
  job.options.own.set("outer", "nesterov");
  job.options.own.set("outer_lr", 0.7);
  job.options.own.set("outer_momentum", 0.9);
  std::map<int, std::vector<std::string>> saved;
  job.after_step = [&](int worker, std::int64_t step, Agreement& rule) {
    if (step != 3) return;
    for (const auto& [name, tensor] : rule.state())
      saved[worker].emplace_back(reinterpret_cast<const char*>(tensor.raw()), tensor.type().num_bytes());
  };
  const QuadraticRun whole = run_well(job);
  ASSERT_EQ(saved[0].size(), 3U) << "counters, the agreed model and the velocity of one bucket";
  EXPECT_EQ(saved[0], saved[1]) << "state is the same on every worker";
  job.after_step = nullptr;
  job.steps = 5;
  job.start_of = {whole.workers[0].trace[3], whole.workers[1].trace[3]};
  job.before_steps = [&](int worker, Agreement& rule) {
    std::size_t i = 0;
    for (const auto& [name, tensor] : rule.state()) {
      const std::string& bytes = saved[worker].at(i++);
      std::memcpy(tensor.raw(), bytes.data(), bytes.size());
    }
  };
  const QuadraticRun rest = run_well(job);
  for (std::size_t w = 0; w < 2; ++w) EXPECT_EQ(rest.workers[w].weights, whole.workers[w].weights);
}

TEST(Averaging, APhantomRunTakesTheSameTimeAndTheSameRounds) {
  QuadraticJob job = two_workers(2, 6);
  job.workers = 3;
  job.b = {0};
  job.bucket_elems = {100'000, 1'000};
  job.compute_ns = {kMilli, 2 * kMilli, kMilli};
  job.options.own.set("outer", "sgd");
  const QuadraticRun real = run_well(job);
  job.world.phantom = true;
  const QuadraticRun phantom = run_well(job);
  for (std::size_t w = 0; w < 3; ++w) {
    EXPECT_EQ(phantom.workers[w].report.exchanges, 3);
    EXPECT_EQ(phantom.workers[w].ended, real.workers[w].ended);
  }
}

TEST(Averaging, WorkersWaitForTheSlowestAtTheEndOfAPeriodOnly) {
  QuadraticJob job = two_workers(5, 10);
  job.compute_ns = {kMilli, 4 * kMilli};
  const QuadraticRun r = run_well(job);
  EXPECT_EQ(r.workers[0].ended[3] - r.workers[0].began, 4 * kMilli);
  EXPECT_GT(r.workers[0].ended[4] - r.workers[0].began, 20 * kMilli);
  EXPECT_LT(r.workers[0].ended[4] - r.workers[0].began, 21 * kMilli);
}

TEST(Averaging, AKilledWorkerIsNamedToTheOthers) {
  QuadraticJob job = two_workers(2, 50);
  job.workers = 3;
  job.b = {0};
  runtime::FaultSpec kill;
  kill.runtime = 2;
  kill.at = 21 * kMilli + kMilli / 2;
  job.world.faults = {kill};
  const QuadraticRun r = testing::run(job);
  EXPECT_TRUE(r.workers[2].dead);
  for (std::size_t w = 0; w < 2; ++w) {
    EXPECT_EQ(r.workers[w].status.code(), Code::kPeerLost) << r.workers[w].status.to_string();
    EXPECT_EQ(r.workers[w].status.context().peer, 2);
    EXPECT_LT(r.workers[w].trace.size(), 25U);
  }
}

TEST(Averaging, AnUnknownOuterOptimiserIsRefused) {
  QuadraticJob job = two_workers(1, 1);
  job.options.own.set("outer", "adam");
  const QuadraticRun r = testing::run(job);
  for (const auto& w : r.workers) {
    EXPECT_EQ(w.status.code(), Code::kInvalid);
    EXPECT_THAT(w.status.message(), ::testing::HasSubstr("got 'adam', expected one of: average, sgd"));
  }
}

}  // namespace
}  // namespace trireme::agree
