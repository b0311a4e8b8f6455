#include "trireme/agree/agree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/agree/quadratic.h"

namespace trireme::agree {
namespace {

using testing::QuadraticJob;
using testing::QuadraticRun;
using testing::Vector;
using Trace = std::vector<Vector>;

QuadraticJob two_workers(const char* neighbours) {
  QuadraticJob job;
  job.rule = "gossip";
  job.letters = true;
  job.options.own.set("neighbors", neighbours);
  job.options.own.set("period", 1);
  job.workers = 2;
  job.steps = 4;
  job.start = {8};
  job.b = {0, 16};
  return job;
}

// A parcel sent after a step comes during the next one and is mixed in before the one after; until then no
// other goes to that worker. So steps 0 and 2 send, and what step 2 sent is refused by the meeting.
void expect_two_parcels_sent(const QuadraticRun& run) {
  for (const auto& worker : run.workers) {
    EXPECT_EQ(worker.settled, (Trace{{8}}));
    EXPECT_EQ(worker.report.exchanges, 1);
    EXPECT_EQ(worker.report.more["sent"], 2);
    EXPECT_EQ(worker.report.more["skipped"], 2);
    EXPECT_EQ(worker.report.more["refused"], 1);
    const std::map<std::int64_t, std::int64_t> one_behind{{1, 1}};
    EXPECT_EQ(worker.report.staleness, one_behind);
  }
}

TEST(Gossip, RandomMixesByWeight) {
  const QuadraticRun run = run_well(two_workers("random"));
  // Half of the weight stays: 2 and the other's 12 make 7, 14 and 4 make 9.
  EXPECT_EQ(run.workers[0].trace, (Trace{{4}, {2}, {3.5F}, {1.75F}}));
  EXPECT_EQ(run.workers[1].trace, (Trace{{12}, {14}, {12.5F}, {14.25F}}));
  expect_two_parcels_sent(run);
}

TEST(Gossip, PushSumAppliesGradientsToTheMassAndTakesThemAtTheModel) {
  const QuadraticRun run = run_well(two_workers("push-sum"));
  // After step 1 worker 0 has x = 0, w = 1/2; with (6, 1/2) of the other: x / w = 6.
  EXPECT_EQ(run.workers[0].trace, (Trace{{4}, {2}, {3}, {1.5F}}));
  EXPECT_EQ(run.workers[1].trace, (Trace{{12}, {14}, {13}, {14.5F}}));
  expect_two_parcels_sent(run);
  for (const auto& worker : run.workers) EXPECT_EQ(worker.report.more["weight"], 1.0);
}

TEST(Gossip, ARingMixesBothNeighboursInEqualParts) {
  QuadraticJob job = two_workers("ring");
  job.workers = 3;
  job.start = {12};
  job.b = {0, 12, 24};
  const QuadraticRun run = run_well(job);
  // Before step 2: 3 + (12 - 3 + 18 - 3) / 3, 12 + (6 - 12 + 18 - 12) / 3, 21 + (6 - 21 + 12 - 21) / 3.
  EXPECT_EQ(run.workers[0].trace, (Trace{{6}, {3}, {5.5F}, {2.75F}}));
  EXPECT_EQ(run.workers[1].trace, (Trace{{12}, {12}, {12}, {12}}));
  EXPECT_EQ(run.workers[2].trace, (Trace{{18}, {21}, {18.5F}, {21.25F}}));
  for (const auto& worker : run.workers) {
    EXPECT_EQ(worker.settled, (Trace{{12}}));
    EXPECT_EQ(worker.report.exchanges, 2);
  }
}

TEST(Gossip, ParcelsGoEveryPeriodSteps) {
  for (const char* neighbours : {"random", "ring", "push-sum"}) {
    QuadraticJob job = two_workers(neighbours);
    job.options.own.set("period", 5);
    job.steps = 50;
    const QuadraticRun run = run_well(job);
    for (const auto& worker : run.workers) {
      EXPECT_EQ(worker.report.more["sent"], 10) << neighbours;
      EXPECT_EQ(worker.report.more["skipped"], 0) << neighbours;
      EXPECT_EQ(worker.report.exchanges, 9) << neighbours;
    }
  }
}

// No gradients: what is left is the mean of where they started, whatever the speeds.
QuadraticJob only_mixing(const char* neighbours, int workers, std::uint64_t seed) {
  QuadraticJob job = two_workers(neighbours);
  job.workers = workers;
  job.a = {0};
  job.b = {0};
  job.steps = 120;
  job.bucket_elems = {2, 1};
  job.seed = seed;
  job.world.seed = seed;
  job.world.latency_jitter = 3;
  job.compute_ns.clear();
  for (int w = 0; w < workers; ++w) {
    const auto at = static_cast<float>(w * w);
    job.start_of.push_back({at, 1 - at, 3});
    job.compute_ns.push_back(kMilli + w * 90 * kMicro);
  }
  return job;
}

float mean_of_squares(int n) { return static_cast<float>((n - 1) * (2 * n - 1)) / 6; }

TEST(Gossip, PushSumKeepsTheMassAndConvergesToTheMean) {
  for (const int workers : {2, 3, 5, 8})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      QuadraticJob job = only_mixing("push-sum", workers, seed);
      job.settle_every = 40;
      const QuadraticRun run = run_well(job);
      const float mean = mean_of_squares(workers);
      double weight = 0;
      for (const auto& worker : run.workers) {
        weight += worker.report.more["weight"].get<double>();
        EXPECT_NEAR(worker.weights[0], mean, 1e-3 * (1 + mean)) << workers << " workers, seed " << seed;
        for (const Vector& settled : worker.settled) {
          EXPECT_NEAR(settled[0], mean, 1e-5 * (1 + mean)) << workers << " workers, seed " << seed;
          EXPECT_NEAR(settled[1], 1 - mean, 1e-5 * (1 + mean));
          EXPECT_NEAR(settled[2], 3, 1e-5);
        }
      }
      EXPECT_DOUBLE_EQ(weight, workers);  // halves are exact
    }
}

TEST(Gossip, EverySchemeBringsReplicasTogether) {
  for (const char* neighbours : {"random", "ring"})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const QuadraticRun run = run_well(only_mixing(neighbours, 6, seed));
      for (const auto& worker : run.workers) {
        EXPECT_NEAR(worker.weights[0], run.workers[0].settled[0][0], 0.1) << neighbours << " " << seed;
        EXPECT_GT(worker.settled[0][0], 0.0F);
        EXPECT_LT(worker.settled[0][0], 25.0F);
      }
    }
}

QuadraticJob noisy(const char* neighbours, std::uint64_t seed) {
  QuadraticJob job = testing::noisy_job("gossip", 5, seed);
  job.options.own.set("neighbors", neighbours);
  job.options.own.set("period", 1);
  job.start = {8};
  job.learning_rate = 0.03F;
  return job;
}

TEST(Gossip, ConvergesFromManySeeds) {
  for (const char* neighbours : {"random", "ring", "push-sum"})
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      const QuadraticRun run = run_well(noisy(neighbours, seed));
      for (const auto& worker : run.workers) {
        EXPECT_EQ(worker.settled, run.workers[0].settled) << neighbours << ", seed " << seed;
        for (std::size_t i = 0; i < 8; ++i) {
          EXPECT_NEAR(worker.settled.back()[i], 2 + static_cast<float>(i), 0.25) << neighbours << seed;
          // Alone it would be at its own centre, up to 2 away.
          EXPECT_NEAR(worker.weights[i], 2 + static_cast<float>(i), 0.6) << neighbours << seed;
        }
      }
    }
}

TEST(Gossip, PartnersAreDrawnFromTheSeed) {
  const auto trace = [](std::uint64_t seed) {
    QuadraticJob job = noisy("random", 1);
    job.steps = 20;
    job.seed = seed;
    return run_well(job).workers[0].trace;
  };
  EXPECT_EQ(trace(1), trace(1));
  EXPECT_NE(trace(1), trace(2));
}

TEST(Gossip, TheOthersEndWithoutAWorkerThatDies) {
  for (const char* neighbours : {"random", "ring", "push-sum"})
    for (const TimeNs at : {60 * kMilli, 100 * kMilli + 17 * kMicro}) {
      QuadraticJob job = noisy(neighbours, 4);
      job.expendable = true;
      runtime::FaultSpec kill;
      kill.runtime = 4;
      kill.at = at;
      job.world.faults = {kill};
      const QuadraticRun run = testing::run(job);
      EXPECT_TRUE(run.workers[4].dead);
      for (std::size_t w = 0; w < 4; ++w) {
        EXPECT_TRUE(run.workers[w].status.ok()) << neighbours << run.workers[w].status.to_string();
        EXPECT_EQ(run.workers[w].trace.size(), 300U);
        ASSERT_EQ(run.workers[w].settled.size(), 1U) << neighbours;
        EXPECT_EQ(run.workers[w].settled, run.workers[0].settled);
        for (std::size_t i = 0; i < 8; ++i)  // centres 0 to 3
          EXPECT_NEAR(run.workers[w].settled[0][i], 1.5F + static_cast<float>(i), 0.3) << neighbours;
      }
    }
}

// Mass that was under way to the dead worker comes back: what the others hold is what it does not.
TEST(Gossip, MassOnItsWayToALostWorkerReturns) {
  QuadraticJob job = only_mixing("push-sum", 3, 2);
  job.expendable = true;
  runtime::FaultSpec kill;
  kill.runtime = 2;
  kill.at = 20 * kMilli + 500 * kMicro;
  job.world.faults = {kill};
  // Three times as long as a step of the others: their parcels wait for it.
  job.compute_ns = {kMilli, kMilli, 3 * kMilli};
  const QuadraticRun run = testing::run(job);
  double weight = 0, lost = 0;
  for (std::size_t w = 0; w < 2; ++w) {
    ASSERT_TRUE(run.workers[w].status.ok()) << run.workers[w].status.to_string();
    weight += run.workers[w].report.more["weight"].get<double>();
    lost += run.workers[w].report.more["lost"].get<double>();
    EXPECT_EQ(run.workers[w].settled, run.workers[0].settled);
    EXPECT_NEAR(run.workers[w].weights[0], run.workers[0].settled[0][0], 1e-3);
  }
  EXPECT_GE(lost, 1);
  EXPECT_GT(weight, 0.5);
  EXPECT_LT(weight, 3);
  EXPECT_NEAR(run.workers[0].settled[0][2], 3, 1e-4);  // where all agreed from the start
}

TEST(Gossip, AWorkerThatSendsMoreThanTheOtherHasRoomForEndsTheRun) {
  QuadraticJob job = two_workers("random");
  job.steps = 20;
  job.compute_ns = {kMilli, 9 * kMilli};
  job.make_rule = [](const RuleContext& context) {
    RuleContext mine = context;
    mine.options.own.set("in_flight", context.worker == 0 ? 3 : 1);
    return (*find_agreement("gossip"))->make(mine);
  };
  const QuadraticRun run = testing::run(job);
  for (const auto& worker : run.workers) {
    EXPECT_FALSE(worker.status.ok());
    EXPECT_NE(worker.status.to_string().find("in_flight"), std::string::npos) << worker.status.to_string();
  }
}

TEST(Gossip, APhantomRunTakesTheSameTime) {
  for (const char* neighbours : {"random", "ring", "push-sum"}) {
    QuadraticJob job = noisy(neighbours, 3);
    job.steps = 20;
    const QuadraticRun real = run_well(job);
    job.world.phantom = true;
    const QuadraticRun phantom = run_well(job);
    EXPECT_EQ(phantom.world.end_time, real.world.end_time) << neighbours;
    EXPECT_EQ(phantom.workers[1].report.exchanges, real.workers[1].report.exchanges) << neighbours;
  }
}

TEST(Gossip, OneWorkerAloneTakesPlainSteps) {
  for (const char* neighbours : {"random", "ring", "push-sum"}) {
    QuadraticJob job = two_workers(neighbours);
    job.workers = 1;
    job.b = {0};
    const QuadraticRun run = run_well(job);
    EXPECT_EQ(run.workers[0].trace, (Trace{{4}, {2}, {1}, {0.5F}}));
    EXPECT_EQ(run.workers[0].settled, (Trace{{0.5F}}));
  }
}

}  // namespace
}  // namespace trireme::agree
