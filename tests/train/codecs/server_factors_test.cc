// Factors pushed to servers that multiply: fewer bytes, the bits of dense pushes.
#include "trireme/prepare/server_factors.h"

#include <gtest/gtest.h>

#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/plan/replica_model.h"
#include "trireme/prepare/factors.h"
#include "trireme/prepare/prepare.h"
#include "trireme/start/simulate.h"

namespace trireme::train {
namespace {

using testing::by_class_job;
using testing::tiny_pictures;
using testing::VirtualRuns;

// Two layers worth it, and a classifier.
job::Job pushed_job(const std::string& rule, int workers, int servers, const char* codec = "factors") {
  job::Job job = by_class_job(rule, workers);
  Json layers = Json::array();
  for (int i = 0; i < 2; ++i) layers.push_back({{"kind", "dense"}, {"out", 64}, {"activation", "relu"}});
  layers.push_back({{"kind", "classifier"}});
  job.model.layers = std::move(layers);
  job.data.partition = "random";
  job.train.batch = 8;
  job.train.epochs = 100;
  job.train.steps = 30;
  job.train.eval_steps = job.train.checkpoint_steps = 30;
  job.train.optimizer.kind = "momentum";
  job.parallel.servers = servers;
  job.parallel.codec = codec;
  return job;
}

record::Summary run(const job::Job& job) {
  VirtualRuns runs;
  return runs.train(job, tiny_pictures(40, 10, 8), {.run_dir = ""}).summary();
}

TEST(ServerFactors, GiveTheBitsOfDensePushes) {
  for (const int workers : {1, 3})
    for (const int servers : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} workers, {} servers", workers, servers));
      const record::Summary dense = run(pushed_job("bsp-server", workers, servers, "none")),
                            thin = run(pushed_job("bsp-server", workers, servers));
      EXPECT_TRUE(thin.finished);
      EXPECT_EQ(thin.parameters_sha256, dense.parameters_sha256);
      EXPECT_EQ(thin.codec, "factors");
      EXPECT_GE(thin.rule["factored"].size(), 2U) << thin.rule.dump();
      EXPECT_LT(thin.bytes_sent_per_step, 0.75 * dense.bytes_sent_per_step) << "pulls are whole";
    }
}

TEST(ServerFactors, AreCarriedByEveryRuleWhoseServersRunTheOptimiser) {
  for (const char* rule : {"ssp", "downpour", "staleness-aware", "soft", "late"}) {
    SCOPED_TRACE(rule);
    job::Job job = pushed_job(rule, 3, 2);
    job.train.steps = 150;
    job.train.eval_steps = job.train.checkpoint_steps = 150;
    job.train.optimizer.kind = "sgd";
    const record::Summary s = run(job);
    EXPECT_TRUE(s.finished);
    EXPECT_GE(s.test_accuracy, 0.9);
    EXPECT_FALSE(s.rule["factored"].empty());
  }
}

TEST(ServerFactors, OfARunThatIsTakenUpAgainGiveTheSameBits) {
  const auto data = tiny_pictures(40, 10, 8);
  job::Job job = pushed_job("bsp-server", 2, 2);
  job.train.checkpoint_steps = 10;
  VirtualRuns whole, stopped;
  const std::string expected = whole.train(job, data).summary().parameters_sha256;
  EXPECT_FALSE(stopped.train(job, data, {.stop_at = 10}).summary().finished);
  EXPECT_EQ(stopped.train(job, data).summary().parameters_sha256, expected);
}

TEST(ServerFactors, AreChosenByTheBytesOfAPush) {
  EXPECT_TRUE(prepare::factors_pay_at_servers(10, 20, 51, 2));
  EXPECT_FALSE(prepare::factors_pay_at_servers(10, 20, 50, 2));
  prepare::PrepareOptions options;
  options.replicas = 1;
  const model::ModelInput input{Shape{1, 6, 6}, 4, model::ModelTask::kClassify};
  const auto chosen = [&](const job::Job& job) {
    const auto prepared = prepare::prepare(job, input, options);
    EXPECT_TRUE(prepared.ok()) << prepared.status().to_string();
    return prepared.ok() ? prepare::factored_parameters((*prepared)->plan).size() : 99;
  };
  EXPECT_EQ(chosen(pushed_job("bsp-server", 1, 1)), 2U) << "one worker has servers to send to";
  job::Job large = pushed_job("bsp-server", 1, 1);
  large.train.batch = 1200;
  EXPECT_EQ(chosen(large), 0U);
}

TEST(ServerFactors, AreRefusedWhereTheWorkerNeedsTheGradient) {
  const auto refused = [](auto change) {
    job::Job job = pushed_job("downpour", 2, 1);
    change(job.parallel);
    const Status status = job::check_job(job);
    EXPECT_EQ(status.code(), Code::kInvalid);
    EXPECT_NE(status.message().find("need the gradient itself"), std::string::npos) << status.message();
  };
  EXPECT_TRUE(job::check_job(pushed_job("downpour", 2, 1)).ok());
  refused([](job::Job::Parallel& p) { p.agreement_options.set("push_steps", 2); });
  refused([](job::Job::Parallel& p) { p.agreement_options.set("fetch_steps", 2); });
  refused([](job::Job::Parallel& p) { p.agreement_options.set("in_flight", 2); });
  refused([](job::Job::Parallel& p) { p.agreement_options.set("local_replicas", 2); });
}

// On a slow link, of a net whose factors are a tenth of its gradients.
TEST(ServerFactors, AreForeseenByThePlanAndChosenWhereTheyPay) {
  start::SimulateOptions options;
  options.machine.flops_per_second_per_core = 2e9;
  options.machine.op_overhead_ns = 0;
  options.link.bytes_per_second = 1.25e6;
  options.phantom = true;
  double took[2], predicted[2];
  for (const int factors : {0, 1}) {
    double ended[2];
    for (const int more : {0, 1}) {
      options.job = pushed_job("bsp-server", 2, 1, factors == 1 ? "factors" : "none");
      options.job.train.steps = more == 0 ? 4 : 12;
      options.job.train.eval_steps = options.job.train.checkpoint_steps = 100;
      const start::SimulateReport report = start::simulate_training(options, tiny_pictures(40, 4));
      ASSERT_TRUE(report.ranks[0].ok()) << report.ranks[0].status().to_string();
      ended[more] = to_seconds(report.ended_at[0]);
      predicted[factors] = report.ranks[0]->predicted_step_seconds;
    }
    took[factors] = (ended[1] - ended[0]) / 8;
  }
  EXPECT_LT(took[1], 0.8 * took[0]);
  for (const int factors : {0, 1}) EXPECT_NEAR(took[factors], predicted[factors], 0.3 * took[factors]);
  options.job = pushed_job("bsp-server", 2, 1, "auto");
  options.job.parallel.codec_tolerance = "exact";
  const start::SimulateReport chosen = start::simulate_training(options, tiny_pictures(40, 4));
  ASSERT_TRUE(chosen.ranks[0].ok()) << chosen.ranks[0].status().to_string();
  EXPECT_EQ(chosen.ranks[0]->codec, "factors");
}

}  // namespace
}  // namespace trireme::train
