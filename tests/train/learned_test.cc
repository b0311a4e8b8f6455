// The verdict on a run: what counts as learned, what does not, and which key is named.
#include "trireme/record/learned.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/agree/agree.h"
#include "trireme/job/job_parts.h"
#include "trireme/train/start.h"

namespace trireme::train {
namespace {

record::LossTrend losses_from(double first, double last, int steps = 100) {
  record::LossTrend trend;
  for (int i = 0; i < steps; ++i) trend.add(first + (last - first) * i / (steps - 1));
  return trend;
}

// A good run of 100 steps on ten classes.
record::RunFacts good_run(int steps = 100) {
  record::RunFacts f;
  f.losses = losses_from(2.3, 0.2, steps);
  f.steps = steps;
  f.num_test = 1000;
  f.num_classes = 10;
  f.test_accuracy = f.train_accuracy = 0.95;
  f.chance = 0.11;
  f.learning_rate = 0.1;
  return f;
}

record::RunFacts guessing_run(int steps = 1000) {
  record::RunFacts f = good_run(steps);
  f.losses = losses_from(2.3, 2.31, steps);
  f.test_accuracy = f.train_accuracy = 0.1;
  return f;
}

TEST(LossTrend, ComparesAQuarterOfTheRunAtBothEndsAndAtMostSixteenSteps) {
  record::LossTrend trend;
  EXPECT_EQ(trend.first(), 0);
  for (int i = 1; i <= 8; ++i) trend.add(i);
  EXPECT_EQ(trend.first(), 1.5);
  EXPECT_EQ(trend.last(), 7.5);
  for (int i = 9; i <= 1000; ++i) trend.add(i);
  EXPECT_EQ(trend.steps(), 1000);
  EXPECT_EQ(trend.first(), 8.5);
  EXPECT_EQ(trend.last(), 992.5);
}

TEST(LossTrend, WhatIsNotFiniteCountsAsAVeryLargeLoss) {
  record::LossTrend trend;
  trend.add(1);
  trend.add(std::nan(""));
  trend.add(INFINITY);
  EXPECT_GT(trend.last(), 1e20);
  EXPECT_TRUE(std::isfinite(trend.last()));
}

TEST(LossTrend, GoesThroughJsonAndGoesOn) {
  record::LossTrend whole, half;
  for (int i = 0; i < 50; ++i) whole.add(1.0 / (3 + i));
  for (int i = 0; i < 20; ++i) half.add(1.0 / (3 + i));
  Result<record::LossTrend> read = record::LossTrend::from_json(*parse_json(half.to_json().dump(), "t"));
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  for (int i = 20; i < 50; ++i) read->add(1.0 / (3 + i));
  EXPECT_EQ(read->to_json(), whole.to_json());
  Json broken = half.to_json();
  broken["first"] = std::vector<double>(17, 1.0);
  EXPECT_EQ(record::LossTrend::from_json(broken).status().code(), Code::kCorrupt);
}

TEST(Learned, AGoodRunHasLearned) {
  const record::Diagnosis v = record::judge(good_run());
  EXPECT_EQ(v.learned, true);
  EXPECT_EQ(v.reason + v.key + v.advice, "");
}

TEST(Learned, AFewStepsTellNothing) {
  for (const int steps : {0, 1, 3, 9}) {
    record::RunFacts f = guessing_run(10);
    f.losses = record::LossTrend();
    for (int i = 0; i < steps; ++i) f.losses.add(2.3 + i);
    f.steps = steps;
    EXPECT_EQ(record::judge(f).learned, std::nullopt) << steps;
  }
}

TEST(Learned, TheAccuracyOfGuessingIsNotLearned) {
  record::RunFacts f = guessing_run();
  f.losses = losses_from(2.4, 2.302, 1000);  // better, by a bias
  const record::Diagnosis v = record::judge(f);
  EXPECT_EQ(v.learned, false);
  EXPECT_EQ(v.reason,
            "the test accuracy of 10.00 % is that of guessing (10 classes; the most frequent one alone gives "
            "11.00 %)");
  EXPECT_EQ(v.key, "train.optimizer.lr");
  f.test_accuracy = 0.12;  // within the spread of 1,000 draws
  EXPECT_EQ(record::judge(f).learned, false);
  f.test_accuracy = 0.2;
  EXPECT_EQ(record::judge(f).learned, true);
}

TEST(Learned, TheMostFrequentClassAloneIsGuessing) {
  record::RunFacts f = good_run();
  f.num_classes = 2;
  f.chance = 0.9;
  f.test_accuracy = 0.9;
  EXPECT_EQ(record::judge(f).learned, false);
  f.test_accuracy = 0.97;
  EXPECT_EQ(record::judge(f).learned, true);
}

TEST(Learned, OfFewTestSamplesOnlyTheChanceItselfIsGuessing) {
  record::RunFacts f = good_run();
  f.num_test = 15;
  f.num_classes = 3;
  f.chance = 0.4;
  f.test_accuracy = 0.47;
  EXPECT_EQ(record::judge(f).learned, true);
  f.test_accuracy = 0.4;
  EXPECT_EQ(record::judge(f).learned, false);
}

TEST(Learned, WhereAccuracyTellsNothingTheLossDecides) {
  record::RunFacts one_class = good_run();
  one_class.num_classes = 1;
  one_class.chance = one_class.test_accuracy = 1;
  record::RunFacts untested = good_run();
  untested.num_test = 0;
  untested.test_accuracy = untested.chance = 0;
  record::RunFacts text = good_run();
  text.task = model::ModelTask::kLanguage;
  text.test_accuracy = 0.05;
  for (record::RunFacts f : {one_class, untested, text}) {
    EXPECT_EQ(record::judge(f).learned, true);
    f.losses = losses_from(2.3, 2.4);
    const record::Diagnosis v = record::judge(f);
    EXPECT_EQ(v.learned, false);
    EXPECT_TRUE(v.reason.starts_with("the loss at the end (")) << v.reason;
    EXPECT_TRUE(v.reason.ends_with("is no better than at the start (2.308)")) << v.reason;
  }
  one_class.losses = losses_from(0, 0);
  EXPECT_EQ(record::judge(one_class).key, "data.path");
}

TEST(Learned, WeightsThatWereTrainedBeforeNeedNotGetBetter) {
  record::RunFacts f = good_run();
  f.starts_trained = true;
  f.losses = losses_from(0.2, 0.21);
  EXPECT_EQ(record::judge(f).learned, true);
  f.losses = losses_from(0.2, 3);
  EXPECT_EQ(record::judge(f).learned, false);
}

TEST(Learned, ARunThatDoesNotKnowItsFirstLossesIsJudgedByAccuracyAlone) {
  record::RunFacts f = good_run();
  f.losses = losses_from(0.2, 0.21, 40);  // of the last 40 of 100 steps
  EXPECT_EQ(record::judge(f).learned, true);
  f.test_accuracy = 0.1;
  EXPECT_EQ(record::judge(f).learned, false);
}

TEST(Learned, ARunThatSkippedMostStepsIsToldSo) {
  record::RunFacts f = good_run(20);
  f.losses = losses_from(2.3, 2.2, 2);
  f.skipped = 18;
  record::Diagnosis v = record::judge(f);
  EXPECT_EQ(v.learned, false);
  EXPECT_EQ(v.reason, "18 of 20 steps were skipped because the loss or a gradient was not finite");
  EXPECT_EQ(v.key, "train.optimizer.lr");
  EXPECT_EQ(v.advice, "try a smaller train.optimizer.lr than 0.1");
  f.precision = "f16";
  EXPECT_EQ(record::judge(f).key, "train.precision");
}

TEST(Learned, TheMostParticularCauseIsNamed) {
  const auto key_of = [](auto change) {
    record::RunFacts f = guessing_run();
    change(f);
    const record::Diagnosis v = record::judge(f);
    EXPECT_EQ(v.learned, false);
    EXPECT_NE(v.advice.find(v.key), std::string::npos) << v.advice;
    return v.key;
  };
  EXPECT_EQ(key_of([](record::RunFacts&) {}), "train.optimizer.lr");
  EXPECT_EQ(key_of([](record::RunFacts& f) { f.codec = "randomk", f.codec_loses = true; }), "parallel.codec");
  const auto stale = [](record::RunFacts& f) {
    f.lock_step = false;
    f.workers = 2;
    f.mean_staleness = 23;
    f.staleness_key = "parallel.staleness";
    f.partition = "by-class";
  };
  EXPECT_EQ(key_of(stale), "parallel.staleness");
  EXPECT_EQ(key_of([&](record::RunFacts& f) { stale(f), f.mean_staleness = 1; }), "data.partition");
  EXPECT_EQ(key_of([](record::RunFacts& f) { f.lock_step = false, f.stale_momentum = 0.9; }),
            "train.optimizer.momentum");
  EXPECT_EQ(key_of([](record::RunFacts& f) { f.losses = losses_from(2.4, 2.3, 50), f.steps = 50; }),
            "train.epochs");
}

TEST(Learned, FeaturesThatAreNotScaledAreTheLikeliestCauseOfAHugeFirstLoss) {
  record::RunFacts f = guessing_run();
  f.losses = losses_from(251, 7762, 255);
  f.steps = 255;
  EXPECT_EQ(
      record::judge(f).advice,
      "the first loss of 472.8 is far above ln(10) = 2.30: scale the features to about -1 to 1, or try a "
      "smaller train.optimizer.lr than 0.1");
}

TEST(Learned, ChanceIsTheShareOfTheMostFrequentTestClass) {
  data::Dataset set;
  set.num_classes = 3;
  set.num_train = 2;
  set.num_test = 4;
  set.labels = {2, 2, 0, 1, 1, 1};
  EXPECT_EQ(record::chance_of(set), 0.75);
  set.num_test = 0;
  EXPECT_EQ(record::chance_of(set), 0);
}

record::Summary finished(std::int64_t steps) {
  record::Summary s;
  s.agreement = "bsp";
  s.codec = "none";
  s.steps = steps;
  s.finished = true;
  return s;
}

TEST(Notes, AreSilentOnAPlainRun) { EXPECT_TRUE(record::notes_of(job::Job(), finished(100)).empty()); }

TEST(Notes, TellOfSkippedStepsButNotOfTheFewThatLossScalingNeeds) {
  record::Summary s = finished(100);
  s.skipped_steps = 3;
  job::Job job;
  EXPECT_EQ(record::notes_of(job, s),
            (std::vector<std::string>{
                "3 of 100 steps were skipped because the loss or a gradient was not finite"}));
  job.train.precision = "f16";
  EXPECT_TRUE(record::notes_of(job, s).empty());
}

TEST(Notes, TellThatNothingWasEncoded) {
  record::Summary s = finished(47);
  s.codec = "1bit";
  s.workers = 2;
  s.codec_dense_steps = 50;
  EXPECT_EQ(record::notes_of(job::Job(), s).at(0),
            "codec 1bit: nothing was encoded, because the first 50 steps are dense and the run has 47 "
            "(parallel.codec_dense_steps)");
  s.steps = 60;
  EXPECT_EQ(record::notes_of(job::Job(), s).at(0),
            "codec 1bit: the first 50 of 60 steps were dense (parallel.codec_dense_steps)");
}

TEST(Notes, TellThatACodecWithOneWorkerCompressesWhatDoesNotTravel) {
  record::Summary s = finished(60);
  s.codec = "topk";
  ASSERT_EQ(record::notes_of(job::Job(), s).size(), 1U);
  EXPECT_TRUE(record::notes_of(job::Job(), s)[0].starts_with("codec topk with one worker: nothing travels"));
  s.workers = 2;
  EXPECT_TRUE(record::notes_of(job::Job(), s).empty());
}

TEST(Notes, TellThatOldUpdatesGetNoMomentumUnlessAsked) {
  record::Summary s = finished(60);
  s.agreement = "downpour";
  s.workers = 2;
  job::Job job;
  job.parallel.agreement = "downpour";
  job.parallel.workers = 2;
  EXPECT_EQ(job::momentum_of(job), 0);
  EXPECT_EQ(
      record::notes_of(job, s).at(0),
      "train.optimizer.momentum was 0, the default of agreement 'downpour': old updates act like momentum");
  job.train.optimizer.options.set("momentum", 0.9);
  EXPECT_EQ(job::momentum_of(job), 0.9);
  EXPECT_TRUE(record::notes_of(job, s).empty());
}

TEST(Momentum, IsZeroByDefaultWhereOldUpdatesAreApplied) {
  const auto momentum = [](const char* rule, int workers) {
    job::Job job;
    job.parallel.agreement = rule;
    job.parallel.workers = workers;
    const bool given = job::optimizer_spec(job).attrs.find("momentum") != nullptr;
    EXPECT_EQ(given, job::momentum_of(job) == 0) << rule;
    return job::momentum_of(job);
  };
  for (const char* rule : {"ssp", "downpour", "staleness-aware", "soft", "decentralized"}) {
    EXPECT_EQ(momentum(rule, 2), 0) << rule;
    EXPECT_EQ(momentum(rule, 1), 0.9) << rule << ": nobody else changes the weights";
  }
  for (const char* rule : {"bsp", "bsp-server", "late", "easgd-async", "averaging", "gossip", "ssp-peer"})
    EXPECT_EQ(momentum(rule, 2), 0.9) << rule;
  job::Job bound;
  bound.parallel.agreement = "ssp";
  bound.parallel.workers = 2;
  bound.parallel.agreement_options.set("staleness", 0);
  EXPECT_EQ(job::momentum_of(bound), 0.9) << "lock step";
}

TEST(Notes, NameTheKeyThatKeepsUpdatesYoung) {
  record::Summary s = finished(100);
  s.agreement = "decentralized";
  s.workers = 2;
  s.staleness = {{3, 10}};
  EXPECT_TRUE(record::notes_of(job::Job(), s).empty());
  s.staleness = {{20, 9}, {50, 1}};
  EXPECT_EQ(record::notes_of(job::Job(), s).at(0),
            "updates were 23.0 clocks old on average (at most 50); a smaller parallel.staleness keeps "
            "workers closer together");
}

TEST(Learned, APartitionIsTheCauseUnderEveryRuleThatIsNotInLockStep) {
  data::Dataset set;
  set.num_classes = 2;
  set.num_test = 100;
  for (int i = 0; i < 100; ++i) set.labels.push_back(i % 2);
  job::Job job;
  job.data.partition = "by-class";
  for (const agree::AgreementRow& row : agree::agreement_table()) {
    record::Summary s = finished(100);
    s.agreement = row.name;
    s.workers = 2;
    s.test_accuracy = 0.5;
    record::judge_summary(job, set, losses_from(0.7, 0.7), true, s);
    EXPECT_EQ(s.learned_key == "data.partition", row.pace != agree::Pace::kStep) << row.name;
  }
}

TEST(Learned, IsInTheSummaryOfARunThatEnded) {
  data::Dataset set;
  set.num_classes = 2;
  set.num_test = 100;
  for (int i = 0; i < 100; ++i) set.labels.push_back(i % 2);
  record::Summary s = finished(100);
  s.test_accuracy = 0.5;
  record::judge_summary(job::Job(), set, losses_from(0.7, 0.7), true, s);
  EXPECT_EQ(s.learned, false);
  EXPECT_EQ(to_json(s)["learned"], false);
  EXPECT_EQ(to_json(s)["learned_key"], "train.optimizer.lr");
  for (const bool real : {true, false}) {
    record::Summary open = finished(100);
    open.finished = !real;
    record::judge_summary(job::Job(), set, losses_from(0.7, 0.7), real, open);
    EXPECT_EQ(open.learned, std::nullopt) << "stopped, or simulated";
    EXPECT_TRUE(to_json(open)["learned"].is_null());
  }
}

TEST(Learned, AResumedRunKnowsTheLossesOfItsStart) {
  job::Job job = testing::tiny_job();
  for (const char* rule : {"bsp", "averaging"}) {
    job.parallel.agreement = rule;
    if (std::string_view(rule) != "bsp") job.train.logical_shards = 0;
    testing::VirtualRuns alone, disturbed;
    const auto data = testing::tiny_pictures(120, 40);
    ASSERT_TRUE(alone.train(job, data).summary().finished);
    EXPECT_FALSE(disturbed.train(job, data, {.stop_at = 4}).summary().finished);
    ASSERT_TRUE(disturbed.train(job, data).summary().finished);
    const Json losses = alone.checkpoint().state["losses"];
    EXPECT_EQ(losses["steps"], 10) << rule;
    EXPECT_EQ(disturbed.checkpoint().state["losses"], losses) << rule;
  }
}

// Checkpoints of earlier versions have none.
TEST(Learned, APositionWithoutLossesIsRead) {
  Json json = to_json(record::Position());
  json.erase("losses");
  const Result<record::Position> read = record::position_from_json(json);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->losses.steps(), 0);
}

}  // namespace
}  // namespace trireme::train
