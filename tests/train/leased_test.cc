// Runs whose workers go at their own pace: resumed, slowed down, robbed of a worker or a server.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/start/simulate.h"

namespace trireme::train {
namespace {

using testing::RunOptions;
using testing::tiny_pictures;
using testing::VirtualRuns;

job::Job leased_job(const std::string& rule, int workers) {
  job::Job job = testing::tiny_job();
  job.train.logical_shards = 0;
  job.train.shard_threads = 1;
  job.train.steps = 24;
  job.train.eval_steps = 8;
  job.train.checkpoint_steps = 8;
  job.parallel.workers = workers;
  job.parallel.agreement = rule;
  job.parallel.agreement_options.set("period", 3);
  return job;
}

start::SimulateReport simulate(const job::Job& job, const std::vector<double>& speeds = {},
                               std::vector<runtime::FaultSpec> faults = {}) {
  start::SimulateOptions options;
  options.job = job;
  options.machine.cores = 1;
  options.faults = std::move(faults);
  if (!speeds.empty()) {
    options.cluster.topology =
        cost::Topology::single_switch(static_cast<int>(speeds.size()), options.machine, options.link);
    for (std::size_t i = 0; i < speeds.size(); ++i) options.cluster.topology.machines[i].speed *= speeds[i];
  }
  return start::simulate_training(options, tiny_pictures(120, 40));
}

runtime::FaultSpec kill_at(int rank, TimeNs when) {
  runtime::FaultSpec fault;
  fault.runtime = rank;
  fault.at = when;
  return fault;
}

// Where that share of the training was done; making ready comes before.
TimeNs moment(const start::SimulateReport& whole, double share) {
  EXPECT_TRUE(whole.ranks[0].ok()) << whole.ranks[0].status().to_string();
  return whole.ended_at[0] - from_seconds((1 - share) * whole.ranks[0]->wall_seconds);
}

TEST(Leased, ARunOfPeriodsStoppedAndStartedAgainEndsInTheBitsOfAnUndisturbedOne) {
  const auto data = tiny_pictures(120, 40);
  for (const char* rule : {"averaging", "easgd", "conservative", "none"}) {
    const job::Job job = leased_job(rule, 3);
    VirtualRuns whole;
    const record::Summary expected = whole.train(job, data).summary();
    ASSERT_TRUE(expected.finished) << rule;
    for (const std::int64_t stop_at : {3, 10, 17}) {
      VirtualRuns runs;
      RunOptions first;
      first.stop_at = stop_at;
      const record::Summary stopped = runs.train(job, data, first).summary();
      EXPECT_FALSE(stopped.finished) << rule << " stopped at " << stop_at;
      EXPECT_LT(stopped.steps, 24) << rule;
      const record::Summary s = runs.train(job, data).summary();
      EXPECT_TRUE(s.finished) << rule;
      EXPECT_EQ(s.steps, 24) << rule;
      EXPECT_EQ(s.parameters_sha256, expected.parameters_sha256) << rule << " stopped at " << stop_at;
    }
  }
}

// Push-sum weighs what replicas hold; a checkpoint holds the model that all of it comes to. From the eighth
// step on nothing is learnt any more, so the model stays what it was, if and only if nothing of the weights
// is missed after a restart.
TEST(Leased, AResumedPushSumRunHasTheModelItHadThoughItsWeightsWereUneven) {
  job::Job job = leased_job("gossip", 3);
  job.parallel.agreement_options.set("period", 1);
  job.parallel.agreement_options.set("neighbors", "push-sum");
  job.train.optimizer.kind = "sgd";
  job.train.optimizer.lr = 0.3;
  job.train.optimizer.schedule = "step";
  job.train.optimizer.milestones = {0.33};
  job.train.optimizer.factor = 1e-12;
  VirtualRuns runs;
  RunOptions first;
  first.stop_at = 8;
  const auto data = tiny_pictures(120, 40);
  const record::Summary stopped = runs.train(job, data, first).summary();
  ASSERT_FALSE(stopped.finished);
  EXPECT_GT(stopped.drift, 1e-3) << "replicas are apart";
  const io::Checkpoint before = runs.checkpoint();
  ASSERT_TRUE(runs.train(job, data).summary().finished);
  const io::Checkpoint after = runs.checkpoint();
  ASSERT_EQ(before.tensors.size(), after.tensors.size());
  double apart = 0, length = 0;
  for (std::size_t i = 0; i < before.tensors.size(); ++i) {
    const auto a = before.tensors[i].second.values<float>(), b = after.tensors[i].second.values<float>();
    for (std::size_t k = 0; k < a.size(); ++k) {
      apart += std::pow(static_cast<double>(a[k]) - static_cast<double>(b[k]), 2);
      length += std::pow(static_cast<double>(a[k]), 2);
    }
  }
  EXPECT_LT(std::sqrt(apart / length), 1e-5);
}

TEST(Leased, EvaluationsAndCheckpointsComeAtTheStepsThatTheJobNames) {
  VirtualRuns runs;
  const auto outcome = runs.train(leased_job("downpour", 3), tiny_pictures(120, 40));
  ASSERT_TRUE(outcome.summary().finished);
  std::vector<std::int64_t> at;
  for (const auto& e : outcome.evaluations) at.push_back(e.step);
  EXPECT_EQ(at, (std::vector<std::int64_t>{8, 16, 24}));
  EXPECT_EQ(runs.checkpoint().step, 24);
  EXPECT_EQ(outcome.summary().samples, 24 * 12);
}

TEST(Leased, FirstValuesOfServersComeFromAllWorkers) {
  job::Job job = leased_job("bsp-server", 3);
  job.model.layers[0]["out"] = 4096;
  job.train.steps = 1;
  job.parallel.servers = 3;
  VirtualRuns runs;
  RunOptions options;
  options.run_dir = "";
  const record::Summary s = runs.train(job, tiny_pictures(120, 40), options).summary();
  ASSERT_TRUE(s.finished);
  ASSERT_EQ(s.per_worker.size(), 3U);
  // Each pushes a model's worth of gradients; a sender of all first values would send twice that.
  std::vector<double> sent;
  for (const record::WorkerShare& share : s.per_worker) sent.push_back(share.bytes_sent);
  EXPECT_LT(*std::max_element(sent.begin(), sent.end()), 1.5 * *std::min_element(sent.begin(), sent.end()));
}

TEST(Leased, UnderAFreeRuleTheFasterWorkersDoMoreOfTheWork) {
  const start::SimulateReport report = simulate(leased_job("decentralized", 3), {1, 1, 0.1});
  ASSERT_TRUE(report.ranks[0].ok()) << report.ranks[0].status().to_string();
  const record::Summary& s = *report.ranks[0];
  ASSERT_EQ(s.per_worker.size(), 3U);
  EXPECT_LT(2 * s.per_worker[2].steps, s.per_worker[0].steps);
  EXPECT_EQ(s.per_worker[0].samples + s.per_worker[1].samples + s.per_worker[2].samples, s.samples);
}

TEST(Leased, UnderABoundRuleEverybodyDoesAsMuchAndTheFastAreHeldBack) {
  job::Job job = leased_job("ssp", 3);
  job.parallel.agreement_options.set("staleness", 2);
  const start::SimulateReport report = simulate(job, {1, 1, 0.1});
  ASSERT_TRUE(report.ranks[0].ok()) << report.ranks[0].status().to_string();
  for (const record::WorkerShare& share : report.ranks[0]->per_worker) EXPECT_EQ(share.steps, 24);
  EXPECT_GT(report.ranks[0]->mean_staleness(), 0);
}

TEST(Leased, WorkersTellForWhomTheyWaited) {
  for (const char* rule : {"averaging", "easgd", "ssp", "bsp-server"}) {
    const start::SimulateReport report = simulate(leased_job(rule, 3), {1, 1, 0.1});
    ASSERT_TRUE(report.ranks[0].ok()) << rule << ": " << report.ranks[0].status().to_string();
    const std::vector<record::WorkerShare>& shares = report.ranks[0]->per_worker;
    for (const int fast : {0, 1}) {
      const record::WorkerShare& share = shares[static_cast<std::size_t>(fast)];
      EXPECT_EQ(share.waits_for, 2) << rule;
      EXPECT_GT(share.waiting_seconds, 0) << rule;
      EXPECT_LE(share.waiting_seconds, share.exposed_seconds) << rule;
    }
    EXPECT_EQ(shares[2].waits_for, -1) << rule;
  }
  // Those at their own pace wait at meetings alone.
  const start::SimulateReport free = simulate(leased_job("downpour", 3), {1, 1, 0.01});
  ASSERT_TRUE(free.ranks[0].ok());
  EXPECT_EQ(free.ranks[0]->per_worker[0].waits_for, 2);
  EXPECT_EQ(free.ranks[0]->per_worker[2].waits_for, -1);
  // The third of four completes a step of the late rule.
  job::Job late = leased_job("late", 4);
  const start::SimulateReport fraction = simulate(late, {1, 1, 0.2, 0.001});
  ASSERT_TRUE(fraction.ranks[0].ok());
  EXPECT_EQ(fraction.ranks[0]->per_worker[0].waits_for, 2);
}

TEST(Leased, TheLateRuleDropsWhatTheSlowOneDidNotDo) {
  job::Job job = leased_job("late", 4);
  job.parallel.agreement_options.set("fraction", 0.75);
  const start::SimulateReport report = simulate(job, {1, 1, 1, 0.001});
  ASSERT_TRUE(report.ranks[0].ok()) << report.ranks[0].status().to_string();
  const record::Summary& s = *report.ranks[0];
  EXPECT_LT(s.per_worker[3].steps, 24);
  EXPECT_GT(s.rule.value("dropped_units", 0), 0);
}

class Outliving : public ::testing::TestWithParam<const char*> {};

TEST_P(Outliving, TheOthersGoOnWithoutAWorkerThatDies) {
  job::Job job = leased_job(GetParam(), 4);
  job.train.steps = 40;
  const start::SimulateReport whole = simulate(job);
  for (const double share : {0.2, 0.5, 0.9}) {
    const start::SimulateReport report = simulate(job, {}, {kill_at(2, moment(whole, share))});
    ASSERT_TRUE(report.ranks[0].ok()) << report.ranks[0].status().to_string();
    EXPECT_TRUE(report.ranks[0]->finished);
    EXPECT_EQ(report.ranks[0]->lost_workers, std::vector<int>{2});
    EXPECT_GT(report.ranks[0]->test_accuracy, 0.5);
    EXPECT_TRUE(report.ranks[1].ok() && report.ranks[3].ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, Outliving,
                         ::testing::Values("downpour", "ssp", "soft", "late", "gossip", "decentralized",
                                           "easgd-async"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Leased, ADeadServerEndsTheRunAndIsNamed) {
  job::Job job = leased_job("downpour", 2);
  job.parallel.servers = 1;  // rank 2, a machine of its own
  const start::SimulateReport report = simulate(job, {}, {kill_at(2, moment(simulate(job), 0.5))});
  for (const int rank : {0, 1}) {
    const Status& status = report.ranks[static_cast<std::size_t>(rank)].status();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.context().peer, 2) << status.to_string();
    EXPECT_NE(status.message().find("server 0 (rank 2) was lost in "), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("it resumes from the last checkpoint"), std::string::npos)
        << status.message();
  }
}

TEST(Leased, AWorkerThatDiesUnderAveragingEndsTheRunForAll) {
  const job::Job job = leased_job("averaging", 3);
  const start::SimulateReport report = simulate(job, {}, {kill_at(1, moment(simulate(job), 0.5))});
  for (const int rank : {0, 2}) {
    const Status& status = report.ranks[static_cast<std::size_t>(rank)].status();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.context().peer, 1) << status.to_string();
  }
}

TEST(Leased, OneWorkerWithoutOthersTakesTheStepsOfBsp) {
  const auto data = tiny_pictures(120, 40);
  VirtualRuns a, b;
  job::Job bsp = leased_job("bsp", 1);
  EXPECT_EQ(a.train(leased_job("none", 1), data).summary().parameters_sha256,
            b.train(bsp, data).summary().parameters_sha256);
}

}  // namespace
}  // namespace trireme::train
