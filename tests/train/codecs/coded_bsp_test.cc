// Lock step with encoded gradients: the same bits for any number of workers, through interruptions, for every
// codec and both ways of summing; and fewer bytes.
#include <gtest/gtest.h>

#include "tests/train/coded_links.h"
#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/codec/codec.h"
#include "trireme/cost/rates.h"

namespace trireme::train::testing {
namespace {

job::Job coded_job(const std::string& codec, const std::string& reducer = "gather") {
  job::Job job = tiny_job();
  job.train.logical_shards = 4;
  job.parallel.codec = codec;
  job.parallel.codec_options.set("least", 16);  // the model is tiny
  job.parallel.reducer = reducer;
  job.parallel.codec_options.set("dense_steps", 0);
  if (codec == "powersgd") job.parallel.codec_options.set("rank", 1);
  if (codec == "topk" || codec == "randomk" || codec == "threshold")
    job.parallel.codec_options.set("fraction", 0.25);
  return job;
}

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  for (const codec::CodecRow& row : codec::codec_table()) names.push_back(row.name);
  names.push_back("powersgd");
  return names;
}

class CodedBsp : public ::testing::TestWithParam<std::string> {};

TEST_P(CodedBsp, GivesTheSameBitsForAnyNumberOfWorkers) {
  for (const char* reducer : {"gather", "split", "sparse", "doubling"}) {
    job::Job job = coded_job(GetParam(), reducer);
    VirtualRuns runs;
    const record::Summary one = runs.train(job, tiny_pictures(40, 10), {.run_dir = ""}).summary();
    ASSERT_EQ(one.parameters_sha256.size(), 64U);
    for (const int workers : {2, 3, 4}) {
      job.parallel.workers = workers;
      job.parallel.overlap = workers == 3 ? "none" : "full";
      const record::Summary got = runs.train(job, tiny_pictures(40, 10), {.run_dir = ""}).summary();
      EXPECT_EQ(got.parameters_sha256, one.parameters_sha256) << reducer << " " << workers;
      EXPECT_EQ(got.codec, GetParam());
    }
  }
}

TEST_P(CodedBsp, GoesOnWithItsResidualsOnOtherWorkers) {
  for (const char* reducer : {"gather", "split"}) {
    job::Job job = coded_job(GetParam(), reducer);
    VirtualRuns alone, disturbed;
    const record::Summary whole = alone.train(job, tiny_pictures(40, 10)).summary();
    job.parallel.workers = 3;
    EXPECT_FALSE(disturbed.train(job, tiny_pictures(40, 10), {.stop_at = 3}).summary().finished);
    job.parallel.workers = 2;
    const record::Summary rest = disturbed.train(job, tiny_pictures(40, 10)).summary();
    EXPECT_TRUE(rest.finished);
    EXPECT_EQ(rest.parameters_sha256, whole.parameters_sha256) << reducer;
    EXPECT_EQ(disturbed.metrics(), alone.metrics());
  }
}

TEST_P(CodedBsp, WorkersOfOneClassEachComeToAModelThatKnowsAll) {
  for (const char* reducer : {"gather", "split", "sparse", "doubling"}) {
    job::Job job = coded_by_class("bsp", GetParam());
    job.parallel.reducer = reducer;
    EXPECT_GE(simulate_coded(job).test_accuracy, 0.9) << reducer;
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, CodedBsp, ::testing::ValuesIn(codec_names()),
                         [](const auto& info) { return info.param == "1bit" ? "OneBit" : info.param; });

// An exact codec sums as no codec does, whichever way the sums are made.
TEST(CodedBspChoice, ExactEncodingsHaveTheBitsOfTheDenseRun) {
  job::Job dense = tiny_job();
  dense.train.logical_shards = 4;
  dense.parallel.workers = 3;
  VirtualRuns runs;
  const record::Summary expected = runs.train(dense, tiny_pictures(40, 10), {.run_dir = ""}).summary();
  for (const char* reducer : {"gather", "split", "sparse", "doubling"}) {
    job::Job job = coded_job("nonzero", reducer);
    job.parallel.workers = 3;
    const record::Summary got = runs.train(job, tiny_pictures(40, 10), {.run_dir = ""}).summary();
    EXPECT_EQ(got.parameters_sha256, expected.parameters_sha256) << reducer;
  }
}

TEST(CodedBspChoice, ThePlanSaysWhatTravelsAndBelievesInFewerSecondsOnASlowLink) {
  job::Job job = coded_job("1bit", "auto");
  job.model.name = "mlp";
  job.parallel.codec_options.erase("least");
  job.parallel.workers = 4;
  job.parallel.link = "100mbit,50us";
  VirtualRuns runs;
  const record::Summary coded = runs.train(job, tiny_pictures(40, 10), {.run_dir = "coded"}).summary();
  const Result<Json> plan = parse_json(runs.read("coded/plan.json"), "plan.json");
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ((*plan)["buckets"][0]["sum"], "gather");  // four shards
  EXPECT_EQ((*plan)["buckets"][0]["codec"], "1bit");
  EXPECT_GT((*plan)["buckets"][0]["message_bytes"].get<double>(), 0);
  job.train.logical_shards = 8;
  const record::Summary more = runs.train(job, tiny_pictures(40, 10), {.run_dir = "more"}).summary();
  EXPECT_EQ((*parse_json(runs.read("more/plan.json"), "plan.json"))["buckets"][0]["sum"], "split");
  job.train.logical_shards = 4;
  job.parallel.codec = "none";
  const record::Summary dense = runs.train(job, tiny_pictures(40, 10), {.run_dir = "dense"}).summary();
  EXPECT_LT(coded.prediction.exchange_seconds, dense.prediction.exchange_seconds);
  EXPECT_GT(more.prediction.exchange_seconds, 0);
}

// Slow links want few bytes, fast ones no work; what is not allowed is not thought of.
TEST(CodedBspChoice, AutoTakesWhatTheLinkAndTheToleranceAskForAndSaysWhy) {
  const auto chosen = [](const char* link, const char* tolerance, Json* plan = nullptr, int shards = 0) {
    job::Job job = tiny_job();
    job.model.name = "mlp";
    job.train.logical_shards = shards;
    job.parallel.workers = 4;
    job.parallel.codec = "auto";
    job.parallel.codec_tolerance = tolerance;
    job.parallel.codec_options.set("least", 16);
    VirtualRuns runs({}, *cost::parse_link(link));
    const record::Summary s = runs.train(job, tiny_pictures(40, 10)).summary();
    const Result<Json> read = parse_json(runs.read("run/plan.json"), "plan.json");
    EXPECT_TRUE(read.ok()) << read.status().to_string();
    if (plan != nullptr) *plan = *read;
    EXPECT_EQ((*read)["codec"], s.codec);
    return s.codec;
  };
  Json plan;
  const std::string slow = chosen("10mbit,1ms", "feedback", &plan);
  EXPECT_NE(slow, "none");
  double least = 1e30, of_chosen = 0;
  for (const Json& choice : plan["codec_choices"]) {
    least = std::min(least, choice["step_seconds"].get<double>());
    if (choice["codec"] == slow) of_chosen = choice["step_seconds"].get<double>();
  }
  EXPECT_EQ(of_chosen, least) << plan["codec_choices"].dump();
  EXPECT_GE(plan["codec_choices"].size(), 9U);
  EXPECT_EQ(plan["codec_choices"][0]["codec"], "none");
  const std::string careful = chosen("10mbit,1ms", "rounding");
  EXPECT_TRUE(careful == "fp16" || careful == "bf16" || careful == "factors" || careful == "mixed")
      << careful;
  EXPECT_EQ(chosen("1000gbit,1us", "feedback"), "none");
  // The bits belong to the job there, and links and workers do not.
  const std::string exact = chosen("10mbit,1ms", "feedback", &plan, 4);
  EXPECT_TRUE(exact == "none" || exact == "factors" || exact == "mixed") << exact;
  EXPECT_LE(plan["codec_choices"].size(), 3U);
}

TEST(CodedBspChoice, DenseFirstStepsAreThoseOfTheDenseRun) {
  job::Job dense = coded_job("none"), coded = coded_job("topk");
  dense.parallel.workers = coded.parallel.workers = 2;
  coded.parallel.codec_options.set("dense_steps", 1000);
  VirtualRuns runs;
  const record::Summary a = runs.train(dense, tiny_pictures(40, 10), {.run_dir = ""}).summary();
  const record::Summary b = runs.train(coded, tiny_pictures(40, 10), {.run_dir = ""}).summary();
  EXPECT_EQ(a.parameters_sha256, b.parameters_sha256);
}

TEST(CodedBspChoice, MomentumCorrectionChangesWhatIsSentAndSurvivesAResume) {
  job::Job job = coded_job("topk");
  job.train.optimizer.kind = "sgd";
  VirtualRuns plain, alone, disturbed;
  const record::Summary without = plain.train(job, tiny_pictures(40, 10), {.run_dir = ""}).summary();
  job.parallel.codec_options.set("momentum", 0.9);
  const record::Summary whole = alone.train(job, tiny_pictures(40, 10)).summary();
  EXPECT_NE(whole.parameters_sha256, without.parameters_sha256);
  job.parallel.workers = 2;
  (void)disturbed.train(job, tiny_pictures(40, 10), {.stop_at = 2}).summary();
  EXPECT_EQ(disturbed.train(job, tiny_pictures(40, 10)).summary().parameters_sha256, whole.parameters_sha256);
}

TEST(CodedBspChoice, WhatMakesNoSenseIsRefusedWithTheFix) {
  const auto expect = [](const job::Job& job, const std::string& words) {
    EXPECT_NE(job::check_job(job).message().find(words), std::string::npos)
        << job::check_job(job).to_string();
  };
  job::Job job = coded_job("topk");
  job.parallel.codec = "topq";
  expect(job, "topk");
  job = coded_job("1bit");
  job.parallel.codec_options.set("fraction", 0.1);
  expect(job, "topk, randomk, threshold");
  job = coded_job("topk");
  job.parallel.codec_options.set("fraction", 2);
  expect(job, "fraction");
  job = coded_job("topk");
  job.parallel.agreement = "gossip";
  job.parallel.workers = 2;
  job.train.logical_shards = 0;
  expect(job, "agreement 'gossip'");
  job = coded_job("topk");
  job.parallel.codec_options.set("momentum", 0.9);
  job.train.optimizer.kind = "adagrad";
  expect(job, "train.optimizer.kind = sgd, adamw, or momentum");
  job.train.optimizer.kind = "momentum";
  job.parallel.agreement = "ssp";
  job.parallel.servers = 1;
  job.train.logical_shards = 0;
  expect(job, "train.optimizer.kind = sgd:");
  job = coded_job("none");  // switched off, its keys may stay
  EXPECT_TRUE(job::check_job(job).ok()) << job::check_job(job).to_string();
}

}  // namespace
}  // namespace trireme::train::testing
