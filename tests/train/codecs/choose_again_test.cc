// The choice of codecs, made again where links are not what was assumed.
#include "trireme/train/choose_again.h"

#include <gtest/gtest.h>

#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/prepare/prepare.h"
#include "trireme/start/simulate.h"

namespace trireme::train {
namespace {

using namespace testing;

job::Job auto_job(const char* tolerance) {
  job::Job job = tiny_job();
  job.train.logical_shards = 0;
  job.train.steps = 3 * kLookSteps;
  job.train.eval_steps = job.train.checkpoint_steps = 1000;
  job.parallel.workers = 3;
  job.parallel.codec = "auto";
  job.parallel.codec_tolerance = tolerance;
  job.parallel.codec_options.set("least", 16);
  return job;
}

// Ranks that believe in `assumed` links and have `real` ones.
record::Summary run_on(const job::Job& job, const char* assumed, const char* real, double flops = 2e8) {
  start::SimulateOptions options;
  options.job = job;
  options.link = *cost::parse_link(assumed);
  options.machine.flops_per_second_per_core = flops;
  options.machine.op_overhead_ns = 0;
  options.cluster.topology = cost::Topology::single_switch(static_cast<int>(job.parallel.workers),
                                                           options.machine, *cost::parse_link(real));
  const start::SimulateReport report = start::simulate_training(options, tiny_pictures(40, 10));
  for (const auto& rank : report.ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
  return report.ranks[0].ok() ? *report.ranks[0] : record::Summary();
}

TEST(ChooseAgain, SlowerLinksThanAssumedGetACodecAtAStepThatIsRecorded) {
  for (const char* tolerance : {"rounding", "feedback"}) {
    const record::Summary s = run_on(auto_job(tolerance), "1000gbit,1us", "1mbit,1us");
    ASSERT_TRUE(s.rule.contains("codec_changes")) << tolerance << ": " << s.codec;
    const Json& first = s.rule["codec_changes"][0];
    EXPECT_EQ(first["step"], kLookSteps);
    EXPECT_EQ(first["from"], "none");
    EXPECT_NE(first["to"], "none");
    EXPECT_NE(first["why"].get<std::string>().find("links are"), std::string::npos);
    EXPECT_NE(s.codec, "none");
    EXPECT_EQ(s.steps, 3 * kLookSteps);
    EXPECT_GT(s.test_accuracy, 0.5) << tolerance;
  }
}

// What was measured decides in the end, whatever is predicted.
TEST(CodecKeeper, TriesDenseStepsWhereLinksSeemFasterAndGoesBackIfTheyAreLonger) {
  for (const bool dense_is_longer : {false, true}) {
    job::Job job = auto_job("rounding");
    job.model.layers[0]["out"] = 256;
    prepare::PrepareOptions options;
    options.replicas = 3;
    options.transport = "inproc";
    options.link = *cost::parse_link("1mbit,1us");
    const model::ModelInput input{Shape{1, 6, 6}, 4, model::ModelTask::kClassify};
    const auto coded = prepare::prepare(job, input, options);
    ASSERT_TRUE(coded.ok()) << coded.status().to_string();
    const std::string codec = (*coded)->plan.codec;
    ASSERT_NE(codec, "none");
    CodecKeeper keeper;
    const double compute = (*coded)->plan.prediction.compute_seconds, step = compute + 1e-4;
    const auto first = keeper.decide(job, **coded, options, {compute, step});
    ASSERT_TRUE(first.ok()) << first.status().to_string();
    ASSERT_TRUE(first->plan.has_value()) << first->why;
    EXPECT_EQ(first->plan->codec, "none") << first->why;
    options.fixed = std::make_shared<const plan::Plan>(*first->plan);
    const auto dense = prepare::prepare(job, input, options);
    ASSERT_TRUE(dense.ok()) << dense.status().to_string();
    options.fixed = nullptr;
    const auto second =
        keeper.decide(job, **dense, options, {compute, dense_is_longer ? 2 * step : step / 2});
    ASSERT_TRUE(second.ok()) << second.status().to_string();
    EXPECT_EQ(second->plan.has_value() && second->plan->codec == codec, dense_is_longer) << second->why;
  }
}

TEST(ChooseAgain, FasterLinksThanAssumedAreNoticedAndNothingKeptBackIsLost) {
  job::Job job = auto_job("rounding");
  job.model.layers[0]["out"] = 256;
  const record::Summary s = run_on(job, "1mbit,1us", "1000gbit,1us", 5e10);
  ASSERT_TRUE(s.rule.contains("codec_changes")) << s.codec;
  EXPECT_NE(s.rule["codec_changes"][0]["why"].get<std::string>().find("links are"), std::string::npos);
  EXPECT_GT(s.test_accuracy, 0.5);
}

TEST(ChooseAgain, LinksAsAssumedKeepTheFirstChoice) {
  for (const char* link : {"1000gbit,1us", "1mbit,1us"}) {
    const record::Summary s = run_on(auto_job("feedback"), link, link);
    EXPECT_FALSE(s.rule.contains("codec_changes"))
        << link << ": " << s.rule.dump() << s.predicted_step_seconds << " " << s.measured_step_seconds;
  }
}

TEST(ChooseAgain, NeverWhereTheBitsBelongToTheJob) {
  job::Job job = auto_job("exact");
  job.train.logical_shards = 3;
  const record::Summary s = run_on(job, "1000gbit,1us", "1mbit,1us");
  EXPECT_FALSE(s.rule.contains("codec_changes")) << s.rule.dump();
  plan::Plan plan;
  plan.logical_shards = 3;
  EXPECT_FALSE(chooses_again(job, plan, 3));
  job.train.logical_shards = 0;
  EXPECT_TRUE(chooses_again(job, plan, 3));
  EXPECT_FALSE(chooses_again(job, plan, 2)) << "shards of a run that lost workers";
  job.parallel.codec = "topk";
  EXPECT_FALSE(chooses_again(job, plan, 3));
}

TEST(ChooseAgain, ARunGoesOnWithThePlanThatItEndedWith) {
  job::Job job = auto_job("feedback");
  job.train.steps = 2 * kLookSteps;
  VirtualRuns slow({}, *cost::parse_link("1mbit,1us"));
  const record::Summary whole = slow.train(job, tiny_pictures(40, 10)).summary();
  const Result<Json> plan = parse_json(slow.read("run/plan.json"), "plan.json");
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ((*plan)["codec"], whole.codec);
  EXPECT_TRUE(plan->contains("codec_chosen_at"));
}

}  // namespace
}  // namespace trireme::train
