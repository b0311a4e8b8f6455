// Workers of several replicas each (parallel.local_replicas) with the whole trainer.
#include <gtest/gtest.h>

#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/start/in_process.h"
#include "trireme/start/simulate.h"

namespace trireme::train {
namespace {

using testing::tiny_pictures;

constexpr std::int64_t kSteps = 96, kBatch = 16;

// Softmax regression, which is convex; two workers that see half of the classes each.
job::Job convex_job(std::int64_t local_replicas) {
  job::Job job = testing::tiny_job();
  job.model.layers = *parse_json(R"([{"kind": "classifier"}])", "layers");
  job.data.partition = "by-class";
  job.train.logical_shards = 0;
  job.train.batch = kBatch;
  job.train.steps = kSteps;
  job.train.eval_steps = job.train.checkpoint_steps = 32;
  job.train.optimizer.kind = "sgd";
  job.train.optimizer.lr = 0.2;
  job.parallel.bucket_bytes = 256;
  job.parallel.workers = 2;
  job.parallel.agreement = "downpour";
  job.parallel.agreement_options.set("local_replicas", local_replicas);
  job.parallel.agreement_options.set("push_steps", local_replicas);
  job.parallel.agreement_options.set("fetch_steps", local_replicas);
  return job;
}

record::Summary simulate(const job::Job& job, int cores, bool phantom = false) {
  start::SimulateOptions options;
  options.job = job;
  options.machine.cores = cores;
  options.phantom = phantom;
  const start::SimulateReport report = start::simulate_training(options, tiny_pictures(320, 80));
  for (const auto& rank : report.ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
  return report.ranks[0].ok() ? *report.ranks[0] : record::Summary{};
}

TEST(LocalReplicas, OfEveryWorkerComeToOneModelThatKnowsWhatAllHaveSeen) {
  for (const std::int64_t local : {2, 4}) {
    const record::Summary s = simulate(convex_job(local), 4);
    EXPECT_TRUE(s.finished);
    EXPECT_GE(s.test_accuracy, 0.95) << local;
    EXPECT_EQ(s.samples, kSteps * kBatch) << local;
    EXPECT_EQ(s.rule.value("local_replicas", 0), local);
    const std::int64_t steps = 2 * kSteps;
    EXPECT_GT(s.rule.value("steps_beside_others", 0), steps / 2) << local;
    EXPECT_LE(s.rule["exchanges"].get<std::int64_t>(), steps / local + 6)
        << "one push for all; 6 at meetings";
  }
}

TEST(LocalReplicas, UseTheCoresOfTheirWorker) {
  job::Job job = convex_job(1);
  job.data.partition = "random";
  job.train.shard_threads = 1;
  job.model.layers = *parse_json(
      R"([{"kind": "dense", "out": 512, "activation": "relu"}, {"kind": "classifier"}])", "layers");
  const double one = simulate(job, 4, /*phantom=*/true).wall_seconds;
  for (const char* option : {"local_replicas", "push_steps", "fetch_steps"})
    job.parallel.agreement_options.set(option, 4);
  const record::Summary four = simulate(job, 4, /*phantom=*/true);
  EXPECT_LT(four.wall_seconds, 0.5 * one);
  EXPECT_LE(four.compute_fraction(), 1.01) << "replicas compute side by side";
}

TEST(LocalReplicas, ShareRunningStatisticsAndHaveTheFrozenParametersOfTheFirst) {
  job::Job job = convex_job(3);
  job.data.partition = "random";
  job.model.layers = *parse_json(R"([{"kind": "dense", "out": 8, "activation": "relu"},
                                     {"kind": "batch_norm"}, {"kind": "classifier"}])",
                                 "layers");
  job.model.freeze = {"dense1"};
  EXPECT_GE(simulate(job, 3).test_accuracy, 0.8);
}

TEST(LocalReplicas, GoOnAfterAStop) {
  const job::Job job = convex_job(2);
  const auto data = tiny_pictures(320, 80);
  testing::VirtualRuns runs;
  testing::RunOptions first;
  first.stop_at = 40;
  const record::Summary stopped = runs.train(job, data, first).summary();
  EXPECT_FALSE(stopped.finished);
  EXPECT_LT(stopped.steps, kSteps);
  const record::Summary s = runs.train(job, data).summary();
  EXPECT_TRUE(s.finished);
  EXPECT_EQ(s.samples, kSteps * kBatch);
  EXPECT_GE(s.test_accuracy, 0.95);
}

// Real threads: steps of replicas fall into each other.
TEST(LocalReplicas, TrainOnThreadsOfTwoWorkers) {
  start::InProcessOptions options;
  options.job = convex_job(3);
  options.job.train.shard_threads = 1;
  options.job.parallel.agreement_options.set("in_flight", 2);
  options.data = tiny_pictures(320, 80);
  const auto ranks = start::train_in_process(options);
  for (const auto& rank : ranks) ASSERT_TRUE(rank.ok()) << rank.status().to_string();
  EXPECT_GE(ranks[0]->test_accuracy, 0.9);
  EXPECT_EQ(ranks[0]->samples, kSteps * kBatch);
}

}  // namespace
}  // namespace trireme::train
