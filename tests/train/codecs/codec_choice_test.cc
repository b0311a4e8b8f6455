// parallel.codec = "auto" tensor by tensor, and the report that explains it.
#include "trireme/prepare/codec_choice.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/job/job_parts.h"
#include "trireme/prepare/plan_report.h"
#include "trireme/prepare/prepare.h"

namespace trireme::train {
namespace {

using namespace testing;

model::ModelInput tiny_input() { return {Shape{1, 6, 6}, 4, model::ModelTask::kClassify}; }

// Two layers whose gradients are products of few samples, and filters that have no factors.
job::Job mixed_job(int workers, const char* tolerance = "rounding") {
  job::Job job = tiny_job();
  Json layers = Json::array();
  layers.push_back({{"kind", "conv2d"}, {"out", 16}, {"window", 3}, {"activation", "relu"}});
  layers.push_back({{"kind", "conv2d"}, {"out", 16}, {"window", 3}, {"activation", "relu"}});
  for (int i = 0; i < 2; ++i) layers.push_back({{"kind", "dense"}, {"out", 64}, {"activation", "relu"}});
  layers.push_back({{"kind", "classifier"}});
  job.model.layers = std::move(layers);
  job.train.logical_shards = 0;
  job.parallel.workers = workers;
  job.parallel.bucket_bytes = 0;
  job.parallel.codec = "auto";
  job.parallel.codec_tolerance = tolerance;
  job.parallel.codec_options.set("least", 64);
  return job;
}

cost::LinkModel slow_link() { return *cost::parse_link("1mbit,1us,1us"); }

prepare::PrepareOptions slow_options(const job::Job& job) {
  prepare::PrepareOptions options;
  options.replicas = static_cast<int>(job.parallel.workers);
  options.transport = "inproc";
  options.link = slow_link();
  return options;
}

TEST(CodecChoice, GivesEveryTensorWhatIsCheapestForIt) {
  const job::Job job = mixed_job(2);
  const auto prepared = prepare::prepare(job, tiny_input(), slow_options(job));
  ASSERT_TRUE(prepared.ok()) << prepared.status().to_string();
  const plan::Plan& plan = (*prepared)->plan;
  EXPECT_EQ(plan.codec, "mixed");
  const std::map<std::string, std::string> codecs = prepare::codecs_of(plan);
  int factored = 0, rounded = 0, dense = 0;
  for (const model::Parameter& p : (*prepared)->parameters) {
    const std::string& codec = codecs.at(p.name);
    factored += codec == "factors";
    rounded += codec == "fp16" || codec == "bf16";
    dense += codec == "none";
    if (p.type.shape.num_elems() < 64) {
      EXPECT_EQ(codec, "none") << p.name;
    }
  }
  EXPECT_GE(factored, 1);
  EXPECT_GE(rounded, 1) << "filters have no factors";
  EXPECT_GE(dense, 3) << "biases";
  double least = 1e30, chosen = 0;
  for (const plan::CodecChoice& c : plan.choices) {
    least = std::min(least, c.step_seconds);
    if (c.codec == plan.codec) chosen = c.step_seconds;
  }
  EXPECT_EQ(chosen, least);
  const auto back = plan::plan_from_json(plan::to_json(plan));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(plan::to_json(*back), plan::to_json(plan));
}

TEST(CodecChoice, AMixedPlanTrainsIsReportedAndGoesOnAfterAStop) {
  for (const char* tolerance : {"rounding", "feedback"}) {
    const job::Job job = mixed_job(3, tolerance);
    VirtualRuns alone({}, slow_link()), disturbed({}, slow_link());
    const record::Summary whole = alone.train(job, tiny_pictures(40, 10)).summary();
    EXPECT_LT(whole.bytes_sent_per_step, whole.bytes_dense_per_step) << tolerance;
    if (whole.codec == "mixed") {
      EXPECT_FALSE(whole.rule["codecs"].empty());
    }
    (void)disturbed.train(job, tiny_pictures(40, 10), {.stop_at = 2}).summary();
    const record::Summary resumed = disturbed.train(job, tiny_pictures(40, 10)).summary();
    EXPECT_EQ(resumed.parameters_sha256, whole.parameters_sha256) << tolerance;
  }
}

// What is exact stays exact whichever tensors take which way.
TEST(CodecChoice, OfExactWaysGivesTheBitsOfTheDenseRun) {
  job::Job job = mixed_job(3, "exact");
  job.train.logical_shards = 6;
  VirtualRuns chosen({}, slow_link()), dense({}, slow_link());
  const record::Summary a = chosen.train(job, tiny_pictures(40, 10), {.run_dir = ""}).summary();
  job.parallel.codec = "none";
  const record::Summary b = dense.train(job, tiny_pictures(40, 10), {.run_dir = ""}).summary();
  EXPECT_EQ(a.parameters_sha256, b.parameters_sha256);
  EXPECT_LT(a.bytes_sent_per_step, b.bytes_sent_per_step);
}

TEST(CodecChoice, StaysDenseWhereTheStepWouldNotBeShorter) {
  job::Job job = mixed_job(4, "feedback");
  prepare::PrepareOptions options = slow_options(job);
  options.link = *cost::parse_link("1000gbit,1us");
  const auto report = prepare::report_plan(job, tiny_input(), options);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->plan.codec, "none");
  EXPECT_NE(report->verdict.find("travel as they are"), std::string::npos) << report->verdict;
  for (const prepare::TensorReport& t : report->tensors) {
    EXPECT_TRUE(t.sending.is(job::Sending::Kind::kDense));
    EXPECT_FALSE(t.why.empty());
  }
}

TEST(CodecChoice, IsMadeForServersAndPeersToo) {
  for (const char* rule : {"ssp", "bsp-server", "ssp-peer", "averaging"}) {
    job::Job job = mixed_job(3, "feedback");
    job.parallel.agreement = rule;
    const bool servers = job.parallel.agreement.find("peer") == std::string::npos && rule[0] != 'a';
    if (servers) job.parallel.servers = 1, job.parallel.codec_options.set("pull", true);
    ASSERT_TRUE(job::check_job(job).ok()) << job::check_job(job).to_string();
    VirtualRuns slow({}, slow_link());
    const record::Summary s = slow.train(job, tiny_pictures(40, 10), {.run_dir = ""}).summary();
    EXPECT_NE(s.codec, "none") << rule;
    EXPECT_NE(s.codec, "auto") << rule;
    job::Job dense = job;
    dense.parallel.codec = "none";
    dense.parallel.codec_options.erase("pull");
    VirtualRuns plain({}, slow_link());
    const record::Summary d = plain.train(dense, tiny_pictures(40, 10), {.run_dir = ""}).summary();
    if (rule[0] != 'a') {  // whose few meetings are most of it
      EXPECT_LT(s.bytes_sent_per_step, 0.7 * d.bytes_sent_per_step) << rule;
    }
    EXPECT_LE(s.predicted_step_seconds, d.predicted_step_seconds) << rule;
  }
  job::Job refused = mixed_job(3);
  refused.parallel.agreement = "gossip";
  EXPECT_NE(job::check_job(refused).message().find("agreement 'gossip'"), std::string::npos);
}

TEST(PlanReport, NamesEveryTensorWithItsPricesAndAddsUp) {
  job::Job job = mixed_job(4);
  const auto report = prepare::report_plan(job, tiny_input(), slow_options(job));
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  const Json json = to_json(*report);
  double sent = 0;
  for (const Json& t : json["tensors"]) {
    EXPECT_EQ(t["candidates"][0]["codec"], "none");
    for (const Json& c : t["candidates"])
      if (c["codec"] == t["codec"]) sent += c["bytes_sent"].get<double>();
  }
  EXPECT_NEAR(sent, json["bytes_sent_per_step"].get<double>(), 1);
  EXPECT_EQ(json["tensors"].size(), 10U);
  EXPECT_GE(json["choices"].size(), 4U);
  const std::string text = to_text(*report);
  for (const Json& t : json["tensors"]) EXPECT_NE(text.find(t["name"].get<std::string>()), std::string::npos);
  job.parallel.codec = "topk";
  const auto named = prepare::report_plan(job, tiny_input(), slow_options(job));
  ASSERT_TRUE(named.ok()) << named.status().to_string();
  EXPECT_NE(to_text(*named).find("parallel.codec = \"topk\""), std::string::npos);
}

}  // namespace
}  // namespace trireme::train
