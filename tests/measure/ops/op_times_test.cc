// Op times of a job: every node of its graphs is measured, once. Nothing is said about how long they take.
#include "trireme/measure/ops/op_times.h"

#include <gtest/gtest.h>

#include "trireme/measure/ops/place_runs.h"

namespace trireme::measure {
namespace {

OpTimesOptions quick(int at_once) {
  OpTimesOptions o;
  o.at_once = at_once;
  o.least_runs = o.most_runs = 2;
  o.enough = 0;
  return o;
}

Places places_of(const job::Job& job, prepare::PrepareOptions options, const model::ModelInput& input) {
  Result<Places> places = prepare_places(job, input, std::move(options));
  if (places.ok()) return *places;
  ADD_FAILURE() << places.status().to_string();
  return {};
}

void every_node_is_measured_once(const Places& places, int at_once) {
  ASSERT_FALSE(places.empty());
  cost::OpTimes times;
  const auto first = measure_op_times(places, quick(at_once), {}, times);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  EXPECT_EQ(first->known, 0);
  EXPECT_EQ(first->measured, first->nodes);
  EXPECT_FALSE(first->families.empty());
  for (const auto& place : places)
    for (const GraphsOf which : {GraphsOf::kTraining, GraphsOf::kEvaluation})
      for (const auto& [key, node] : nodes_of(*place, which)) {
        const cost::OpTime* time = times.find(key, at_once);
        ASSERT_NE(time, nullptr) << key;
        EXPECT_EQ(time->family, node.family);
        EXPECT_EQ(time->flops, node.cost.flops);
      }
  EXPECT_NE(times.find(cost::strand_key(places[0]->plan.shard_threads), at_once), nullptr);
  const cost::OpTimes before = times;
  const auto second = measure_op_times(places, quick(at_once), {}, times);
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  EXPECT_EQ(second->measured, 0);
  EXPECT_EQ(second->known, second->nodes);
  EXPECT_EQ(times, before);
}

TEST(OpTimesOfJobs, AreOfEveryNodeAndMeasuredOnce) {
  every_node_is_measured_once(places_of({}, {}, {Shape{1, 28, 28}, 10}), 1);
}

TEST(OpTimesOfJobs, OfAdamWithClippingAndHalfPrecisionToo) {
  job::Job job;
  job.train.optimizer.kind = "adam";
  job.train.optimizer.clip_norm = 1;
  job.train.precision = "f16";
  every_node_is_measured_once(places_of(job, {}, {Shape{1, 28, 28}, 10}), 1);
}

TEST(OpTimesOfJobs, OfStagesThatComputeAtTheSameTime) {
  job::Job job;
  job.parallel.workers = 2;
  job.parallel.mesh = "stage=2";
  job.train.logical_shards = 4;
  prepare::PrepareOptions options;
  options.stages = 2;
  const Places places = places_of(job, options, {Shape{1, 28, 28}, 10});
  ASSERT_EQ(places.size(), 2U);
  every_node_is_measured_once(places, 2);
}

TEST(OpTimesOfJobs, OfTilesWhoseCollectivesTakeNoPart) {
  job::Job job;
  job.model.name = "mlp";
  job.parallel.workers = 2;
  job.parallel.mesh = "model=2";
  prepare::PrepareOptions options;
  options.tiles = 2;
  every_node_is_measured_once(places_of(job, options, {Shape{1, 28, 28}, 10}), 1);
}

// ---- What is taken of the samples

NodesByKey one_node() {
  cost::NodeWork node;
  node.key = "matmul|1 threads";
  node.family = "matmul";
  node.cost.flops = 7;
  return {{node.key, node}};
}

TEST(OpTimeSamples, TheMedianStands) {
  cost::OpTimes times;
  OpTimesReport report;
  take_samples(one_node(), {{"matmul|1 threads", {1.0, 1.25, 1.125}}}, quick(3), times, report);
  const cost::OpTime* time = times.find("matmul|1 threads", 3);
  ASSERT_NE(time, nullptr);
  EXPECT_EQ(time->seconds, 1.125);
  EXPECT_EQ(time->runs, 3);
  EXPECT_EQ(time->flops, 7);
  EXPECT_TRUE(report.unsteady.empty());
}

TEST(OpTimeSamples, OfABusyHostDoNotReplaceOlderOnes) {
  const std::string key = "matmul|1 threads";
  const SamplesByKey wild{{key, {1.0, 4.0, 2.0, 9.0, 3.0}}};
  OpTimesOptions again = quick(1);
  again.again = true;
  cost::OpTimes times;
  OpTimesReport first, second, third;
  take_samples(one_node(), wild, again, times, first);
  ASSERT_NE(times.find(key, 1), nullptr) << "better than nothing";
  EXPECT_EQ(first.unsteady.size(), 1U);
  take_samples(one_node(), {{key, {0.5, 0.5, 0.5}}}, again, times, second);
  EXPECT_EQ(times.find(key, 1)->seconds, 0.5);
  take_samples(one_node(), wild, again, times, third);
  EXPECT_EQ(times.find(key, 1)->seconds, 0.5);
  EXPECT_EQ(third.unsteady.size(), 1U);
  EXPECT_EQ(third.measured, 0);
}

}  // namespace
}  // namespace trireme::measure
