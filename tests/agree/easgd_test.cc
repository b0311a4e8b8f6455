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
  QuadraticJob job = testing::two_workers_from_eight("easgd", period, steps);
  job.options.own.set("elasticity", 0.25);
  return job;
}

// x_i' = x_i - lr g_i(x_i) - alpha (x_i - c), c' = c + alpha sum_i (x_i - c): x_i and c are those before the
// step.
TEST(Easgd, BothLinesUseTheOldValues) {
  QuadraticJob job = two_workers(1, 3);
  job.settle_every = 1;
  const QuadraticRun r = run_well(job);
  // All at 8: no difference. Then (4, 6) around 8, and (3, 5.5) around 6.5: differences (-3.5, -1).
  EXPECT_THAT(r.workers[0].trace, ElementsAre(Vector{4}, Vector{3}, Vector{2.375}));
  EXPECT_THAT(r.workers[1].trace, ElementsAre(Vector{6}, Vector{5.5}, Vector{5}));
  for (const auto& w : r.workers) EXPECT_THAT(w.settled, ElementsAre(Vector{8}, Vector{6.5}, Vector{5.375}));
}

TEST(Easgd, BetweenExchangesWorkersAreAlone) {
  const QuadraticRun r = run_well(two_workers(2, 3));
  // The second step starts from (4, 6) around 8.
  EXPECT_THAT(r.workers[0].trace, ElementsAre(Vector{4}, Vector{3}, Vector{1.5}));
  EXPECT_THAT(r.workers[1].trace, ElementsAre(Vector{6}, Vector{5.5}, Vector{4.75}));
  for (const auto& w : r.workers) {
    EXPECT_THAT(w.settled, ElementsAre(Vector{6.5}));
    EXPECT_EQ(w.report.exchanges, 1);
  }
  EXPECT_EQ(r.workers[0].report.more.dump(), R"({"outer_steps":1,"period":2,"elasticity":0.25})");
  EXPECT_TRUE(r.workers[1].report.more.empty()) << "reports are added up";
}

TEST(Easgd, WithMomentumOnTheWorkersItIsEamsgd) {
  QuadraticJob job = two_workers(1, 2);
  job.momentum = 0.5F;
  const QuadraticRun r = run_well(job);
  // Second step: v = (8, 4) moves (4, 6) to (0, 4); the differences to 8 are (-4, -2).
  EXPECT_THAT(r.workers[0].trace, ElementsAre(Vector{4}, Vector{1}));
  EXPECT_THAT(r.workers[1].trace, ElementsAre(Vector{6}, Vector{4.5}));
  EXPECT_THAT(r.workers[0].settled, ElementsAre(Vector{6.5}));
}

TEST(Easgd, WithoutElasticityWorkersAreIndependent) {
  QuadraticJob job = two_workers(1, 10);
  job.learning_rate = 0.3F;
  job.options.own.set("elasticity", 1e-30);  // 0 stands for 0.9 / workers
  const QuadraticRun elastic = run_well(job);
  job.rule = "none";
  const QuadraticRun alone = run_well(job);
  for (std::size_t w = 0; w < 2; ++w) EXPECT_EQ(elastic.workers[w].trace, alone.workers[w].trace);
  EXPECT_EQ(elastic.workers[1].settled.at(0), Vector{8}) << "the centre stays where it began";
}

TEST(Easgd, ElasticityIsNineTenthsOverTheWorkersUnlessGiven) {
  QuadraticJob job = two_workers(1, 2);  // the first is from 8 to 4, without a difference
  job.options.own.set("elasticity", 0);
  job.workers = 3;
  job.b = {0};
  const QuadraticRun r = run_well(job);
  EXPECT_FLOAT_EQ(r.workers[0].report.more["elasticity"].get<float>(), 0.3F);
  EXPECT_FLOAT_EQ(r.workers[0].settled.at(0)[0], 8 - 0.9F * 4);
}

// u = (x - b, c - b) becomes M u with every step, and M^n = (p^n (M - q) - q^n (M - p)) / (p - q) with p, q
// the eigenvalues of M.
TEST(Easgd, OneWorkerFollowsTheClosedForm) {
  constexpr double kAlpha = 0.2, kRate = 0.3, kA = 1.5, kB = 2, kStart = 7;
  QuadraticJob job;
  job.rule = "easgd";
  job.workers = 1;
  job.options.own.set("period", 1);
  job.options.own.set("elasticity", kAlpha);
  job.learning_rate = static_cast<float>(kRate);
  job.a = {static_cast<float>(kA)};
  job.b = {static_cast<float>(kB)};
  job.start = {static_cast<float>(kStart)};
  job.steps = 30;
  job.settle_every = 1;
  const QuadraticRun r = run_well(job);
  const double keep = 1 - kRate * kA;
  const double m[2][2] = {{keep - kAlpha, kAlpha}, {kAlpha, 1 - kAlpha}};
  const double half_trace = (m[0][0] + m[1][1]) / 2, det = m[0][0] * m[1][1] - m[0][1] * m[1][0];
  const double root = std::sqrt(half_trace * half_trace - det), p = half_trace + root, q = half_trace - root;
  for (int n = 1; n <= 30; ++n) {
    const double pn = std::pow(p, n), qn = std::pow(q, n), u = kStart - kB;
    const auto row = [&](int i) {
      const double first = pn * (m[i][0] - (i == 0 ? q : 0)) - qn * (m[i][0] - (i == 0 ? p : 0));
      const double second = pn * (m[i][1] - (i == 1 ? q : 0)) - qn * (m[i][1] - (i == 1 ? p : 0));
      return kB + u * (first + second) / (p - q);
    };
    const auto step = static_cast<std::size_t>(n - 1);
    EXPECT_NEAR(r.workers[0].trace[step][0], row(0), 1e-5) << n;
    EXPECT_NEAR(r.workers[0].settled.at(step)[0], row(1), 1e-5) << n;
  }
}

TEST(Easgd, TheCentreConvergesFromManySeedsWithTheSameBitsEverywhere) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Philox random(seed);
    std::vector<float> b;
    for (int w = 0; w < 3; ++w) b.push_back(4 * random.next_normal());
    QuadraticJob job;
    job.rule = "easgd";
    job.workers = 3;
    job.steps = 300;
    job.start = {5 * random.next_normal()};
    job.bucket_elems = {3, 2};
    job.learning_rate = 0.1F;
    job.momentum = seed % 2 == 0 ? 0.5F : 0;
    job.options.own.set("period", 1 + static_cast<std::int64_t>(seed % 5));
    job.gradient = [&](const GradientAt& at) {
      Philox noise(seed, (static_cast<std::uint64_t>(at.worker) << 40) | (at.elem << 32) |
                             static_cast<std::uint64_t>(at.step));
      const float fading = std::pow(0.95F, static_cast<float>(at.step));
      return at.x - b[static_cast<std::size_t>(at.worker)] + fading * noise.next_normal();
    };
    const QuadraticRun r = run_well(job);
    for (const auto& w : r.workers) {
      EXPECT_EQ(w.settled, r.workers[0].settled) << "seed " << seed;
      for (const float c : w.settled.at(0))
        EXPECT_NEAR(c, (b[0] + b[1] + b[2]) / 3, 2e-2F) << "seed " << seed;
    }
  }
}

TEST(Easgd, TheSumOfDifferencesHidesBehindTheNextSteps) {
  QuadraticJob job = two_workers(4, 41);
  job.bucket_elems = {200'000};  // 0.8 MB: about 0.7 ms on the wire of a period of 4 ms
  const QuadraticRun elastic = run_well(job);
  job.rule = "averaging";
  job.options.own.set("elasticity", 0);
  const QuadraticRun averaged = run_well(job);
  const TimeNs compute = 41 * kMilli;
  const TimeNs exposed = elastic.workers[0].ended.back() - compute;
  EXPECT_LT(exposed, (averaged.workers[0].ended.back() - compute) / 2);
}

TEST(Easgd, ARestoredRunGoesOnBitForBit) {
  QuadraticJob job = two_workers(3, 9);
  job.learning_rate = 0.3F;
  job.settle_every = 4;  // a checkpoint is taken where the workers meet
  std::map<int, std::vector<std::string>> saved;
  job.after_step = [&](int worker, std::int64_t step, Agreement& rule) {
    if (step != 4) return;
    for (const auto& [name, tensor] : rule.state())
      saved[worker].emplace_back(reinterpret_cast<const char*>(tensor.raw()), tensor.type().num_bytes());
  };
  const QuadraticRun whole = run_well(job);
  ASSERT_EQ(saved[0].size(), 2U);
  EXPECT_EQ(saved[0], saved[1]) << "the centre is the same on every worker";
  job.after_step = nullptr;
  job.settle_every = 0;
  job.steps = 4;
  job.start_of = {whole.workers[0].trace[4], whole.workers[1].trace[4]};
  job.before_steps = [&](int worker, Agreement& rule) {
    std::size_t i = 0;
    for (const auto& [name, tensor] : rule.state()) {
      const std::string& bytes = saved[worker].at(i++);
      std::memcpy(tensor.raw(), bytes.data(), bytes.size());
    }
  };
  const QuadraticRun rest = run_well(job);
  for (std::size_t w = 0; w < 2; ++w) {
    EXPECT_EQ(rest.workers[w].weights, whole.workers[w].weights);
    EXPECT_EQ(rest.workers[w].settled.back(), whole.workers[w].settled.back());
  }
}

TEST(Easgd, APhantomRunTakesTheSameTimeAndTheSameRounds) {
  QuadraticJob job = two_workers(2, 6);
  job.bucket_elems = {100'000, 1'000};
  const QuadraticRun real = run_well(job);
  job.world.phantom = true;
  const QuadraticRun phantom = run_well(job);
  for (std::size_t w = 0; w < 2; ++w) {
    EXPECT_EQ(phantom.workers[w].report.exchanges, 3);
    EXPECT_EQ(phantom.workers[w].ended, real.workers[w].ended);
  }
}

TEST(Easgd, AWorkerKilledWhileItSumsIsNamedToTheOthers) {
  QuadraticJob job = two_workers(2, 50);
  job.workers = 3;
  job.b = {0};
  runtime::FaultSpec kill;
  kill.runtime = 1;
  kill.at = 20 * kMilli + 20 * kMicro;
  job.world.faults = {kill};
  const QuadraticRun r = testing::run(job);
  EXPECT_TRUE(r.workers[1].dead);
  for (const std::size_t w : {0U, 2U}) {
    EXPECT_EQ(r.workers[w].status.code(), Code::kPeerLost) << r.workers[w].status.to_string();
    EXPECT_EQ(r.workers[w].status.context().peer, 1);
  }
}

TEST(Easgd, APeriodOfZeroIsRefused) {
  const QuadraticRun r = testing::run(two_workers(0, 1));
  EXPECT_EQ(r.workers[0].status.code(), Code::kInvalid);
  EXPECT_THAT(r.workers[0].status.message(), ::testing::HasSubstr("parallel.period: got 0"));
}

}  // namespace
}  // namespace trireme::agree
