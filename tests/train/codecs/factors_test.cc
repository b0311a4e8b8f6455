// Gradients that travel as factors: fewer bytes, the same bits.
#include "trireme/prepare/factors.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/train/small_jobs.h"
#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/prepare/prepare.h"
#include "trireme/train/balance.h"

namespace trireme::train {
namespace {

using testing::hash_in_process;
using testing::hash_virtual;
using testing::tiny_job;
using testing::tiny_pictures;
using testing::VirtualRuns;

// The first two of its three layers are worth it with up to four workers, the classifier never.
job::Job factored_job(int workers, const char* codec = "factors") {
  job::Job job = tiny_job();
  Json layers = Json::array();
  layers.push_back({{"kind", "conv2d"}, {"out", 2}, {"window", 3}, {"activation", "relu"}});
  for (int i = 0; i < 2; ++i) layers.push_back({{"kind", "dense"}, {"out", 64}, {"activation", "relu"}});
  layers.push_back({{"kind", "classifier"}});
  job.model.layers = std::move(layers);
  job.parallel.workers = workers;
  job.parallel.codec = codec;
  return job;
}

record::Summary run_virtual(const job::Job& job, const std::shared_ptr<const data::Dataset>& data) {
  VirtualRuns runs;
  return runs.train(job, data, {.run_dir = ""}).summary();
}

model::ModelInput tiny_input() { return {Shape{1, 6, 6}, 4, model::ModelTask::kClassify}; }

TEST(Factors, GiveTheBitsOfGradientsForAnyNumberOfWorkersAndAnyOverlap) {
  const auto data = tiny_pictures(40, 10, 8);  // the last batch of an epoch is short
  const std::string expected = hash_virtual(factored_job(1, "none"), data);
  ASSERT_EQ(expected.size(), 64U);
  for (const char* overlap : {"none", "buckets", "full"})
    for (int workers = 1; workers <= 4; ++workers) {
      job::Job job = factored_job(workers);
      job.parallel.overlap = overlap;
      EXPECT_EQ(hash_virtual(job, data), expected) << overlap << ", " << workers << " workers";
    }
}

TEST(Factors, GiveTheBitsOfGradientsWhereEveryWorkerHasOneShard) {
  const auto data = tiny_pictures(40, 10, 8);
  for (int workers = 2; workers <= 4; ++workers) {
    job::Job dense = factored_job(workers, "none"), factors = factored_job(workers);
    dense.train.logical_shards = factors.train.logical_shards = 0;
    EXPECT_EQ(hash_virtual(factors, data), hash_virtual(dense, data)) << workers << " workers";
  }
}

// Nodes of the tree wait for each other over several rounds of products, and the last ones lack a half.
TEST(Factors, AreAddedAlongTheTreeForAnyNumberOfShards) {
  const auto data = tiny_pictures(84, 4);
  for (const int shards : {3, 5, 6, 7, 11, 13, 21}) {
    job::Job dense = factored_job(3, "none"), factors = factored_job(3);
    dense.train.batch = factors.train.batch = 21;
    dense.train.logical_shards = factors.train.logical_shards = shards;
    dense.train.steps = factors.train.steps = 4;
    EXPECT_EQ(hash_virtual(factors, data), hash_virtual(dense, data)) << shards << " shards";
  }
}

TEST(Factors, GiveTheSameBitsOnThreadsAndOnJitteryLinks) {
  const auto data = tiny_pictures(40, 10, 8);
  const std::string expected = hash_virtual(factored_job(1, "none"), data);
  job::Job job = factored_job(3);
  job.parallel.overlap = "full";
  EXPECT_EQ(hash_in_process(job, data), expected);
  for (std::uint64_t seed = 2; seed < 6; ++seed) EXPECT_EQ(hash_virtual(job, data, seed), expected) << seed;
}

TEST(Factors, GoTogetherWithClippingAndSkippedSteps) {
  const auto data = tiny_pictures(40, 10, 8);
  const auto with = [](job::Job job) {
    job.train.optimizer.clip_norm = 0.5;
    job.train.nan = "skip";
    return job;
  };
  const std::string expected = hash_virtual(with(factored_job(1, "none")), data);
  EXPECT_NE(expected, hash_virtual(factored_job(1, "none"), data));
  EXPECT_EQ(hash_virtual(with(factored_job(3)), data), expected);
}

// What is left for the last bucket are the metrics.
TEST(Factors, MayBeAllThatTravels) {
  const auto data = tiny_pictures(40, 10);
  job::Job dense = factored_job(1, "none");
  dense.model.layers = *parse_json(
      R"([{"kind": "dense", "out": 64, "bias": false, "activation": "relu"}, {"kind": "classifier", "bias": false}])",
      "layers");
  dense.train.batch = 4;
  job::Job factors = dense;
  factors.parallel.codec = "factors";
  factors.parallel.workers = 2;
  for (const char* overlap : {"none", "full"}) {
    factors.parallel.overlap = overlap;
    EXPECT_EQ(hash_virtual(factors, data), hash_virtual(dense, data)) << overlap;
  }
  prepare::PrepareOptions options;
  options.replicas = 2;
  const auto prepared = prepare::prepare(factors, tiny_input(), options);
  ASSERT_TRUE(prepared.ok()) << prepared.status().to_string();
  EXPECT_TRUE((*prepared)->plan.buckets.back().parameters.empty());
}

TEST(Factors, OfTheRecipeAreThoseOfItsFullyConnectedLayers) {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  std::ifstream in(std::string(root != nullptr ? root : ".") + "/recipes/poseidon.toml");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  Result<job::Job> job = job::parse_job(text, "poseidon.toml");
  ASSERT_TRUE(job.ok()) << job.status().to_string();
  job->train.steps = 2;
  job->train.batch = 16;
  VirtualRuns runs;
  const auto data = testing::few_digits(64, 16);
  const record::Summary s = runs.train(*job, data).summary();
  job::Job dense = *job;
  dense.parallel.codec = "none";
  const record::Summary expected = runs.train(dense, data, {.run_dir = "dense"}).summary();
  EXPECT_EQ(s.codec, "factors");
  EXPECT_EQ(s.workers, 4);
  EXPECT_EQ(s.parameters_sha256, expected.parameters_sha256);
  EXPECT_LT(s.bytes_sent_per_step, 0.5 * expected.bytes_sent_per_step);
  EXPECT_LT(s.bytes_sent_per_step, 0.5 * s.bytes_dense_per_step);
  const plan::Plan plan = *plan::plan_from_json(*parse_json(runs.read("run/plan.json"), "plan.json"));
  const std::vector<std::string> factored = prepare::factored_parameters(plan);
  EXPECT_FALSE(factored.empty());
  EXPECT_EQ(s.rule["factored"], Json(factored));
  for (const std::string& name : factored) EXPECT_EQ(name.find("conv"), std::string::npos) << name;
}

TEST(Factors, GoWhereTheirShardsGo) {
  start::SimulateOptions options;
  options.job = factored_job(2);
  options.job.train.logical_shards = 8;
  options.job.train.batch = 16;
  options.job.train.steps = 2 * kBalanceSteps + 4;
  options.machine.cores = 1;
  options.machine.flops_per_second_per_core = 1e6;
  options.cluster.topology = cost::Topology::single_switch(2, options.machine, options.link);
  options.cluster.topology.machines[1].speed = 0.2;
  const auto data = tiny_pictures(64, 4);
  const start::SimulateReport uneven = start::simulate_training(options, data);
  job::Job dense = options.job;
  dense.parallel.codec = "none";
  dense.parallel.workers = 1;
  const std::string expected = hash_virtual(dense, data);
  for (const auto& rank : uneven.ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    EXPECT_EQ(rank->parameters_sha256, expected);
  }
  ASSERT_EQ(uneven.ranks[0]->per_worker.size(), 2U);
  EXPECT_GT(uneven.ranks[0]->per_worker[0].samples, 1.3 * uneven.ranks[0]->per_worker[1].samples);
}

TEST(Factors, OfARunThatIsTakenUpAgainByOtherWorkersGiveTheSameBits) {
  const auto data = tiny_pictures(40, 10, 8);
  const std::string expected = hash_virtual(factored_job(1, "none"), data);
  int workers = 4;
  for (const std::int64_t stop_at : {2, 5}) {
    VirtualRuns runs;
    EXPECT_FALSE(runs.train(factored_job(workers), data, {.stop_at = stop_at}).summary().finished);
    const Result<Json> json = parse_json(runs.read("run/plan.json"), "plan.json");
    ASSERT_TRUE(json.ok());
    EXPECT_EQ(prepare::factored_parameters(*plan::plan_from_json(*json)).size(), 2U) << "the plan says which";
    workers = 1 + workers % 3;
    EXPECT_EQ(runs.train(factored_job(workers), data).summary().parameters_sha256, expected);
    EXPECT_EQ(prepare::factored_parameters(*plan::plan_from_json(*parse_json(runs.read("run/plan.json"), "")))
                  .size(),
              2U);
  }
}

TEST(Factors, AreFewerBytesWhichTheSummaryShows) {
  const auto data = tiny_pictures(40, 4);
  job::Job dense = factored_job(2, "none"), factors = factored_job(2);
  dense.train.eval_steps = factors.train.eval_steps = 100;
  const record::Summary before = run_virtual(dense, data), after = run_virtual(factors, data);
  EXPECT_EQ(before.codec, "none");
  EXPECT_EQ(after.codec, "factors");
  EXPECT_EQ(after.parameters_sha256, before.parameters_sha256);
  EXPECT_LT(after.bytes_sent_per_step, 0.5 * before.bytes_sent_per_step);
  EXPECT_LT(after.bytes_sent_per_step, 0.5 * after.bytes_dense_per_step);
}

TEST(Factors, AreChosenByTheirBytes) {
  prepare::PrepareOptions options;
  const auto chosen = [&](const job::Job& job) {
    options.replicas = static_cast<int>(job.parallel.workers);
    const auto prepared = prepare::prepare(job, tiny_input(), options);
    EXPECT_TRUE(prepared.ok()) << prepared.status().to_string();
    return prepared.ok() ? prepare::factored_parameters((*prepared)->plan) : std::vector<std::string>{"?"};
  };
  const auto first_two = chosen(factored_job(2));
  ASSERT_EQ(first_two.size(), 2U);
  EXPECT_TRUE(chosen(factored_job(1)).empty()) << "nobody to send to";
  EXPECT_TRUE(chosen(factored_job(2, "none")).empty());
  job::Job large = factored_job(2);
  large.train.batch = 1200;
  EXPECT_TRUE(chosen(large).empty()) << "the factors of many samples are larger than the product";
  EXPECT_TRUE(plan::factors_pay(99, 100, 2));
  EXPECT_FALSE(plan::factors_pay(100, 100, 2));
  EXPECT_FALSE(plan::factors_pay(99, 100, 3));
  EXPECT_FALSE(plan::factors_pay(1, 100, 1));
}

TEST(Factors, AreForeseenByThePlan) {
  start::SimulateOptions options;
  options.machine.flops_per_second_per_core = 2e8;
  options.machine.op_overhead_ns = 0;
  options.link.bytes_per_second = 1.25e6;
  options.phantom = true;
  double took[2], predicted[2];
  for (const int factors : {0, 1}) {
    double ended[2];
    for (const int more : {0, 1}) {
      options.job = factored_job(2, factors == 1 ? "factors" : "none");
      options.job.train.eval_steps = options.job.train.checkpoint_steps = 100;
      options.job.train.steps = more == 0 ? 4 : 12;
      const start::SimulateReport report = start::simulate_training(options, tiny_pictures(40, 4));
      ASSERT_TRUE(report.ranks[0].ok()) << report.ranks[0].status().to_string();
      ended[more] = to_seconds(report.ended_at[0]);
      predicted[factors] = report.ranks[0]->predicted_step_seconds;
    }
    took[factors] = (ended[1] - ended[0]) / 8;
  }
  EXPECT_LT(took[1], 0.7 * took[0]);
  for (const int factors : {0, 1}) EXPECT_NEAR(took[factors], predicted[factors], 0.25 * took[factors]);
}

TEST(Factors, AreRefusedWhereTheyCannotBe) {
  const auto refused = [](auto change, const char* fix) {
    job::Job job = factored_job(2);
    change(job);
    const Status status = job::check_job(job);
    EXPECT_EQ(status.code(), Code::kInvalid) << fix;
    EXPECT_NE(status.message().find(fix), std::string::npos) << status.message();
  };
  EXPECT_TRUE(job::check_job(factored_job(2)).ok()) << job::check_job(factored_job(2)).to_string();
  refused([](job::Job& j) { j.parallel.agreement = "gossip"; }, "parallel.agreement = \"bsp\"");
  refused([](job::Job& j) { j.train.optimizer.max_batch_multiplier = 2; }, "max_batch_multiplier = 1");
  refused([](job::Job& j) { j.train.precision = "bf16"; }, "train.precision = \"f32\"");
  refused([](job::Job& j) { j.parallel.weights = "shared"; }, "use auto");
  refused([](job::Job& j) { j.parallel.codec_options.set("feedback", true); },
          "it not to be set with parallel.codec = \"factors\"");
}

TEST(Factors, OfAPlanThatDoesNotFitTheModelAreRefused) {
  prepare::PrepareOptions options;
  options.replicas = 2;
  const auto prepared = prepare::prepare(factored_job(2), tiny_input(), options);
  ASSERT_TRUE(prepared.ok());
  const auto with = [&](auto change) {
    plan::Plan plan = (*prepared)->plan;
    for (plan::Bucket& b : plan.buckets)
      if (b.sends_factors()) change(b);
    options.fixed = std::make_shared<const plan::Plan>(std::move(plan));
    return prepare::prepare(factored_job(2), tiny_input(), options).status();
  };
  EXPECT_TRUE(with([](plan::Bucket&) {}).ok());
  EXPECT_EQ(with([](plan::Bucket& b) { b.factor_elems /= 4; }).code(), Code::kCorrupt);
  EXPECT_EQ(with([](plan::Bucket& b) { b.parameters[0] = "layer1/bias"; }).code(), Code::kCorrupt);
}

}  // namespace
}  // namespace trireme::train
