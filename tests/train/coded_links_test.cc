// Encoded links of servers and peers with the whole trainer in virtual time.
#include "tests/train/coded_links.h"

#include <gtest/gtest.h>

#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"

namespace trireme::train::testing {
namespace {

TEST(CodedLinks, WorkersOfOneClassEachComeToAModelThatKnowsAll) {
  const std::pair<const char*, const char*> some[] = {
      {"downpour", "topk"}, {"bsp-server", "1bit"}, {"decentralized", "threshold"}, {"ssp-peer", "qsgd"}};
  for (const auto& [rule, codec] : some) {
    SCOPED_TRACE(fmt::format("{} {}", rule, codec));
    const record::Summary s = simulate_coded(coded_by_class(rule, codec));
    EXPECT_TRUE(s.finished);
    EXPECT_GE(s.test_accuracy, 0.9) << to_json(s).dump(1);
  }
}

TEST(CodedLinks, PullsMayBeEncodedToo) {
  for (const char* rule : {"bsp-server", "downpour"}) {
    job::Job job = coded_by_class(rule, "topk");
    job.parallel.codec_options.set("pull", true);
    EXPECT_GE(simulate_coded(job).test_accuracy, 0.9) << rule;
  }
}

// Meetings are dense.
TEST(CodedLinks, SendFewerBytes) {
  for (const char* rule : {"downpour", "decentralized"}) {
    job::Job job = coded_by_class(rule, "threshold");
    job.model.layers[0]["out"] = 2000;
    job.parallel.workers = 2;
    job.parallel.codec_options.set("fraction", 0.01);
    job.train.steps = job.train.eval_steps = job.train.checkpoint_steps = 60;
    const bool has_servers = std::string_view(rule) == "downpour";
    if (has_servers) job.parallel.codec_options.set("pull", true);
    const double coded = simulate_coded(job).bytes_sent_per_step;
    const double phantom = simulate_coded(job, /*phantom=*/true).bytes_sent_per_step;
    job.parallel.codec = "none";
    job.parallel.codec_options.erase("fraction");
    job.parallel.codec_options.erase("least");
    job.parallel.codec_options.erase("pull");
    const double dense = simulate_coded(job).bytes_sent_per_step;
    EXPECT_LT(coded, dense / 4) << rule;
    EXPECT_LT(phantom, dense / 4) << rule;
  }
}

// Checkpoints go on without what the lost worker had kept, and so does a run that starts from them.
TEST(CodedLinks, AWorkerThatIsLostTakesItsResidualsAlong) {
  for (const char* rule : {"downpour", "decentralized"})
    for (const int lost : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} {}", rule, lost));
      job::Job job = coded_by_class(rule, "topk");
      job.data.partition = "random";
      job.train.steps = 240;
      job.train.eval_steps = job.train.checkpoint_steps = 60;
      job.parallel.workers = 3;
      runtime::FaultSpec fault;
      fault.runtime = lost;
      fault.at = 9 * kMilli;  // steps are from 5 to 14
      VirtualRuns runs({fault});
      const RunOutcome first = runs.train(job, tiny_pictures(120, 40), {.stop_at = 200});
      ASSERT_TRUE(first.ranks[0].ok()) << first.ranks[0].status().to_string();
      EXPECT_FALSE(first.ranks[0]->finished);
      EXPECT_EQ(first.ranks[0]->lost_workers, std::vector<int>{lost});
      const record::Summary rest = runs.train(job, tiny_pictures(120, 40)).summary();
      EXPECT_TRUE(rest.finished);
      EXPECT_GE(rest.steps, 240);
      EXPECT_GE(rest.test_accuracy, 0.9);
    }
}

job::Job resumed_job(const std::string& rule, const std::string& codec, int workers) {
  job::Job job = coded_by_class(rule, codec);
  job.data.partition = "random";
  job.train.steps = 16;
  job.train.eval_steps = job.train.checkpoint_steps = 4;
  job.parallel.workers = workers;
  if (job.parallel.codec_options.has("fraction")) job.parallel.codec_options.set("warmup_steps", 10);
  return job;
}

// The cases are rules that do not depend on who is faster.
TEST(CodedLinks, ARunThatIsStoppedGoesOnWithItsResiduals) {
  struct Case {
    const char *rule, *codec;
    int workers;
    bool pulls;
  };
  const Case cases[] = {{"downpour", "topk", 1, false},
                        {"downpour", "randomk", 1, true},
                        {"bsp-server", "1bit", 2, false},
                        {"ssp-peer", "threshold", 2, false}};
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{} {}", c.rule, c.codec));
    job::Job job = resumed_job(c.rule, c.codec, c.workers);
    if (c.pulls) job.parallel.codec_options.set("pull", true);
    if (std::string_view(c.rule) == "ssp-peer") job.parallel.agreement_options.set("staleness", 0);
    VirtualRuns alone, disturbed;
    const record::Summary whole = alone.train(job, tiny_pictures(120, 40)).summary();
    EXPECT_TRUE(whole.finished);
    const record::Summary half = disturbed.train(job, tiny_pictures(120, 40), {.stop_at = 7}).summary();
    EXPECT_FALSE(half.finished);
    EXPECT_LT(half.steps, 16);
    const record::Summary rest = disturbed.train(job, tiny_pictures(120, 40)).summary();
    EXPECT_TRUE(rest.finished);
    EXPECT_EQ(rest.parameters_sha256, whole.parameters_sha256);
    bool has_state = false;
    for (const auto& [name, tensor] : alone.checkpoint().tensors)
      has_state |= name.find("codec/exchanges") != std::string::npos;
    EXPECT_TRUE(has_state);
  }
}

// Means of weights: changes since the last agreed model travel, and what was left out comes later.
TEST(CodedAveraging, WorkersOfOneClassEachComeToAModelThatKnowsAll) {
  for (const char* codec : {"topk", "1bit", "fp16"})
    for (const char* reducer : {"gather", "split", "doubling"}) {
      job::Job job = coded_by_class("averaging", codec);
      job.parallel.agreement_options.set("period", 2);
      job.parallel.reducer = reducer;
      const record::Summary s = simulate_coded(job);
      EXPECT_GE(s.test_accuracy, 0.9) << codec << " " << reducer;
      EXPECT_GT(s.rule.value("encoded_bytes", 0.0), 0) << codec;
    }
}

TEST(CodedAveraging, OfAnExactCodecIsTheMeanAndSendsFewerBytesOtherwise) {
  job::Job job = coded_by_class("averaging", "none");
  job.parallel.codec_options.erase("least");
  job.model.layers[0]["out"] = 2000;
  job.parallel.agreement_options.set("period", 1);
  job.train.steps = job.train.eval_steps = job.train.checkpoint_steps = 60;
  const record::Summary dense = simulate_coded(job);
  job.parallel.codec = "nonzero";
  const record::Summary exact = simulate_coded(job);
  EXPECT_NEAR(exact.test_loss, dense.test_loss, 1e-3);
  job.parallel.codec = "topk";
  job.parallel.codec_options.set("fraction", 0.01);
  EXPECT_LT(simulate_coded(job).bytes_sent_per_step, dense.bytes_sent_per_step / 4);
  EXPECT_LT(simulate_coded(job, /*phantom=*/true).bytes_sent_per_step, dense.bytes_sent_per_step / 4);
}

TEST(CodedAveraging, ARunThatIsStoppedGoesOnWithItsResiduals) {
  for (const char* outer : {"average", "nesterov"}) {
    job::Job job = resumed_job("averaging", "topk", 2);
    job.parallel.agreement_options.set("period", 2);
    job.parallel.agreement_options.set("outer", outer);
    VirtualRuns alone, disturbed;
    const record::Summary whole = alone.train(job, tiny_pictures(120, 40)).summary();
    EXPECT_FALSE(disturbed.train(job, tiny_pictures(120, 40), {.stop_at = 7}).summary().finished);
    const record::Summary rest = disturbed.train(job, tiny_pictures(120, 40)).summary();
    EXPECT_EQ(rest.parameters_sha256, whole.parameters_sha256) << outer;
  }
}

// The centre moves by what was decoded of the differences, and what was left out is in the next ones.
TEST(CodedPeriods, EasgdAndConservativeComeToAModelThatKnowsAllAndGoOnAfterAStop) {
  for (const char* rule : {"easgd", "conservative"})
    for (const char* codec : {"topk", "1bit", "qsgd"}) {
      SCOPED_TRACE(fmt::format("{} {}", rule, codec));
      job::Job job = coded_by_class(rule, codec);
      job.parallel.agreement_options.set("period", 2);
      job.train.steps = 300;
      const record::Summary s = simulate_coded(job);
      EXPECT_GE(s.test_accuracy, 0.9);
      EXPECT_GT(s.rule.value("encoded_bytes", 0.0), 0);
      job::Job stopped = resumed_job(rule, codec, 2);
      stopped.parallel.agreement_options.set("period", 2);
      VirtualRuns alone, disturbed;
      const record::Summary whole = alone.train(stopped, tiny_pictures(120, 40)).summary();
      EXPECT_FALSE(disturbed.train(stopped, tiny_pictures(120, 40), {.stop_at = 7}).summary().finished);
      const record::Summary rest = disturbed.train(stopped, tiny_pictures(120, 40)).summary();
      EXPECT_EQ(rest.parameters_sha256, whole.parameters_sha256);
    }
}

TEST(CodedPeriods, EasgdWithAnExactCodecIsEasgd) {
  job::Job job = coded_by_class("easgd", "none");
  job.parallel.codec_options.erase("least");
  job.parallel.agreement_options.set("period", 2);
  const record::Summary dense = simulate_coded(job);
  job.parallel.codec = "nonzero";
  job.parallel.codec_options.set("least", 16);
  EXPECT_NEAR(simulate_coded(job).test_loss, dense.test_loss, 1e-3);
}

TEST(CodedPeriods, EasgdRefusesWhatWouldCountTwice) {
  job::Job job = coded_by_class("easgd", "topk");
  job.train.epochs = 1;
  EXPECT_TRUE(job::check_job(job).ok()) << job::check_job(job).message();
  job.parallel.reducer = "split";
  EXPECT_NE(job::check_job(job).message().find("counted twice"), std::string::npos)
      << job::check_job(job).message();
  job.parallel.reducer = "auto";
  job.parallel.codec_options.set("feedback", false);
  EXPECT_NE(job::check_job(job).message().find("part of the next difference"), std::string::npos);
}

}  // namespace
}  // namespace trireme::train::testing
