// What nodes were measured to take, in the predictions of a job's steps.
#include "trireme/prepare/work.h"
#include "trireme/job/job_options.h"

#include <gtest/gtest.h>

#include "trireme/prepare/make_plan.h"
#include "trireme/prepare/prepare.h"
#include "trireme/prepare/stages.h"

namespace trireme::prepare {
namespace {

const model::ModelInput kDigits{Shape{1, 28, 28}, 10};

// Binary fractions: sums of them are exact in any order.
double seconds_of(std::size_t number) { return static_cast<double>(1 + number % 7) / 1024; }

// Every node of a graph takes something else.
void measure(const exec::CompiledGraph& graph, int at_once, cost::OpTimes& times) {
  for (const cost::NodeWork& node : work_of(graph))
    times.put(node.key, at_once,
              {.family = node.family, .seconds = seconds_of(times.entries().size()), .runs = 5});
}

double sum_of(const cost::Work& work, int at_once, const cost::OpTimes& times) {
  double sum = 0;
  for (const cost::NodeWork& node : work) sum += node.count * times.find(node.key, at_once)->seconds;
  return sum;
}

PrepareOptions with(std::shared_ptr<cost::OpTimes> times, PrepareOptions options) {
  auto rates = std::make_shared<cost::Rates>(rates_of(options));
  rates->op_times = std::move(times);
  options.rates = std::move(rates);
  return options;
}

std::shared_ptr<cost::OpTimes> no_starts() {
  auto times = std::make_shared<cost::OpTimes>();
  times->put(cost::strand_key(1), 1, {.family = cost::kStrandFamily, .seconds = 0, .runs = 5});
  return times;
}

std::shared_ptr<const Prepared> prepared_of(const job::Job& job, const PrepareOptions& options) {
  const auto prepared = prepare(job, kDigits, options);
  if (prepared.ok()) return *prepared;
  ADD_FAILURE() << prepared.status().to_string();
  return nullptr;
}

TEST(Work, PredictionsAreTheSumsOfWhatWasMeasured) {
  const job::Job job;
  const auto before = prepared_of(job, {});
  ASSERT_NE(before, nullptr);
  EXPECT_EQ(before->plan.prediction.measured_fraction, 0);
  const auto times = no_starts();
  measure(*before->train, 1, *times);
  for (const Compiled& update : before->updates) measure(*update, 1, *times);
  const auto after = prepared_of(job, with(times, {}));
  ASSERT_NE(after, nullptr);
  EXPECT_DOUBLE_EQ(after->plan.prediction.compute_seconds, sum_of(work_of(*after->train), 1, *times));
  EXPECT_DOUBLE_EQ(after->plan.prediction.measured_fraction, 1);
}

TEST(Work, OfUpdatesIsMeasuredToo) {
  job::Job job;
  job.parallel.overlap = "none";
  const auto before = prepared_of(job, {});
  const auto times = no_starts();
  measure(*before->train, 1, *times);
  for (const Compiled& update : before->updates) measure(*update, 1, *times);
  const auto after = prepared_of(job, with(times, {}));
  double updates = 0;
  for (const Compiled& update : after->updates) updates += sum_of(work_of(*update), 1, *times);
  EXPECT_DOUBLE_EQ(after->plan.prediction.update_seconds, updates);
}

TEST(Work, UpdatesTakeTheCoresThatBackwardHas) {
  const job::Job job;
  PrepareOptions options;
  options.machine.cores = 1;
  const auto before = prepared_of(job, options);
  ASSERT_NE(before, nullptr);
  const auto times = no_starts();
  measure(*before->train, 1, *times);
  for (const Compiled& update : before->updates) measure(*update, 1, *times);
  const auto after = prepared_of(job, with(times, options));
  ASSERT_NE(after, nullptr);
  double all = sum_of(work_of(*after->train), 1, *times);
  for (const Compiled& update : after->updates) all += sum_of(work_of(*update), 1, *times);
  EXPECT_NEAR(after->plan.prediction.step_seconds(), all, 1e-9 * all) << "with the overlap of buckets";
}

TEST(Work, WhatIsPlannedDoesNotDependOnIt) {
  job::Job job;
  job.parallel.codec = "auto";
  job.parallel.workers = 4;
  PrepareOptions options;
  options.replicas = 4;
  const auto before = prepared_of(job, options);
  ASSERT_NE(before, nullptr);
  const auto times = std::make_shared<cost::OpTimes>();
  for (const cost::NodeWork& node : work_of(*before->train))
    times->put(node.key, 1, {.family = node.family, .seconds = 1, .runs = 5});
  const auto after = prepared_of(job, with(times, options));
  ASSERT_NE(after, nullptr);
  EXPECT_GT(after->plan.prediction.compute_seconds, 1);
  plan::Plan plan = after->plan;
  plan.prediction = before->plan.prediction;
  EXPECT_EQ(plan::to_json(plan).dump(), plan::to_json(before->plan).dump());
}

struct Piped {
  job::Job job;
  PrepareOptions options;
};

Piped two_stages() {
  Piped p;
  p.job.parallel.workers = 2;
  p.job.parallel.mesh = "stage=2";
  p.job.train.logical_shards = 4;
  p.options.stages = 2;
  p.options.fixed = nullptr;
  return p;
}

void expect_sums_of_what_was_measured(const char* timetable) {
  Piped p = two_stages();
  p.job.options.set(job::kPipeline.name, std::string(timetable));
  const auto first = prepared_of(p.job, p.options);
  ASSERT_NE(first, nullptr);
  p.options.fixed = std::make_shared<const plan::Plan>(first->whole_plan());
  p.options.like = first;
  p.options.stage = 1;
  const auto second = prepared_of(p.job, p.options);
  ASSERT_NE(second, nullptr);
  const auto times = no_starts();
  for (const auto& place : {first, second})
    for (const StageSegment& s : place->stages->segments) measure(*s.train, 1, *times);
  cost::Rates rates = rates_of(p.options);
  const parallel::TimetableTimes plain = pipeline_times(*first, rates);
  rates.op_times = times;
  const parallel::TimetableTimes measured = pipeline_times(*first, rates);
  ASSERT_EQ(measured.phases.size(), 2U);
  for (const auto& place : {first, second}) {
    const StageSegment& s = place->stages->segments[0];
    const PhaseWork work = phase_work(*s.train);
    const StageExtras extras = stage_extras(*first, s.index, rates);
    const parallel::PhaseTimes& t = measured.phases[static_cast<std::size_t>(s.index)];
    const double message = extras.message_seconds;
    EXPECT_GT(extras.add_seconds, 0);
    EXPECT_NEAR(t.forward, sum_of(work.phases[kForwardPhase], 1, *times) + message, 1e-12);
    const double backward = sum_of(work.phases[kBackwardPhase], 1, *times),
                 weights = sum_of(work.phases[kWeightsPhase], 1, *times);
    if (first->stages->splits_weights) {
      EXPECT_NEAR(t.backward, backward + message, 1e-12);
      EXPECT_NEAR(t.weights, weights + extras.add_seconds, 1e-12);
    }
    EXPECT_NEAR(t.backward + t.weights, backward + weights + message + extras.add_seconds, 1e-12);
    EXPECT_NE(t.forward, plain.phases[static_cast<std::size_t>(s.index)].forward);
  }
  rates.op_times = nullptr;
  EXPECT_EQ(stage_extras(*first, 0, rates).add_seconds, 0) << "without measured times, as before";
}

TEST(Work, PhasesOfStagesAreTheSumsOfWhatWasMeasuredAndWhatIsAdded) {
  for (const char* timetable : {"1f1b", "zb-h1"}) {
    SCOPED_TRACE(timetable);
    expect_sums_of_what_was_measured(timetable);
  }
}

TEST(Work, PlacesOfAReplicaAgreeAboutAllSegments) {
  Piped p = two_stages();
  const auto first = prepared_of(p.job, p.options);
  ASSERT_NE(first, nullptr);
  p.options.fixed = std::make_shared<const plan::Plan>(first->whole_plan());
  p.options.stage = 1;
  const auto alone = prepared_of(p.job, p.options);  // compiles all segments itself
  ASSERT_NE(alone, nullptr);
  for (std::size_t g = 0; g < first->stages->costs.size(); ++g)
    for (std::size_t phase = 0; phase < kNumTrainPhases; ++phase) {
      const cost::Work &a = first->stages->costs[g].work->phases[phase],
                       &b = alone->stages->costs[g].work->phases[phase];
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].key, b[i].key);
    }
}

}  // namespace
}  // namespace trireme::prepare
