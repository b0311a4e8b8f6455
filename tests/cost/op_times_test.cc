// Measured op times: what is found, what stands for what was not measured, and the file.
#include "trireme/cost/op_times.h"

#include <gtest/gtest.h>

#include "trireme/cost/rates.h"

namespace trireme::cost {
namespace {

// A roofline of 1 ns per flop, and 100 ns to start.
MachineModel machine() {
  MachineModel m;
  m.cores = 1;
  m.flops_per_second_per_core = 1e9;
  m.bytes_per_second = 1e15;
  m.op_overhead_ns = 100;
  return m;
}

NodeWork node(const std::string& key, double flops, int count = 1) {
  return {"", key + "|1 threads", key.substr(0, key.find(' ')), {.flops = flops}, count};
}

OpTime took(const NodeWork& n, double seconds) {
  return {.family = n.family, .seconds = seconds, .spread = 0.01, .runs = 5, .flops = n.cost.flops};
}

TEST(OpTimes, OfMeasuredNodesAddUpExactly) {
  const NodeWork a = node("matmul a", 1000, 3), b = node("relu b", 10);
  OpTimes times;
  times.put(a.key, 1, took(a, 0.25));
  times.put(b.key, 1, took(b, 0.125));
  times.put(strand_key(1), 1, {.family = kStrandFamily, .seconds = 0.5, .runs = 5});
  const WorkSeconds all = work_seconds({a, b}, 2, times, 1, machine(), 1);
  EXPECT_EQ(all.seconds, 3 * 0.25 + 0.125 + 2 * 0.5);
  EXPECT_EQ(all.measured, all.seconds);
  MachineModel slow = machine();
  slow.speed = 0.5;
  EXPECT_EQ(work_seconds({a, b}, 2, times, 1, slow, 1).seconds, 2 * all.seconds);
}

TEST(OpTimes, WhatPassesBetweenNodesCountsAsTheNodesDo) {
  const NodeWork a = node("matmul a", 1000), other = node("relu b", 1e9);
  OpTimes times;
  times.put(a.key, 1, took(a, 1));
  times.put(strand_key(1), 1, {.family = kStrandFamily, .seconds = 8, .runs = 5});
  EXPECT_EQ(work_seconds({a}, 1, times, 1, machine(), 1).measured, 9);
  EXPECT_EQ(work_seconds({other}, 1, times, 1, machine(), 1).measured, 0);
  EXPECT_NEAR(work_seconds({a, other}, 1, times, 1, machine(), 1).measured, 5, 1e-6) << "half of it is known";
}

TEST(OpTimes, OtherRunsAtOnceStandInButCountAsNotMeasured) {
  const NodeWork a = node("matmul a", 1000);
  OpTimes times;
  times.put(a.key, 2, took(a, 0.5));
  times.put(a.key, 8, took(a, 4));
  EXPECT_EQ(times.find(a.key, 4), nullptr);
  EXPECT_EQ(times.find_near(a.key, 4)->seconds, 0.5);
  EXPECT_EQ(times.find_near(a.key, 7)->seconds, 4);
  EXPECT_EQ(times.find_near(a.key, 5)->seconds, 0.5) << "of two as near the smaller number";
  EXPECT_EQ(times.find_near("matmul b|1 threads", 2), nullptr);
  EXPECT_EQ(work_seconds({a}, 0, times, 8, machine(), 1).measured, 4);
  const WorkSeconds near = work_seconds({a}, 0, times, 7, machine(), 1);
  EXPECT_EQ(near.seconds, 4);
  EXPECT_EQ(near.measured, 0);
}

TEST(OpTimes, WhatWasNotMeasuredHasTheEfficiencyOfItsFamily) {
  // Rooflines are 1000, 2000 and 3000 ns; they took 2, 3 and 10 times that.
  const NodeWork a = node("matmul a", 900), b = node("matmul b", 1900), c = node("matmul c", 2900);
  OpTimes times;
  times.put(a.key, 1, took(a, 2 * 1000e-9));
  times.put(b.key, 1, took(b, 3 * 2000e-9));
  times.put(c.key, 1, took(c, 10 * 3000e-9));
  times.put("relu x|2 threads", 1, took(node("relu x", 10), 1));
  const auto families = efficiencies(times, 1, machine(), 1);
  ASSERT_EQ(families.size(), 1U) << "of as many threads";
  EXPECT_EQ(families[0].family, "matmul");
  EXPECT_EQ(families[0].entries, 3);
  EXPECT_NEAR(families[0].efficiency, 3, 1e-9);
  const NodeWork other = node("matmul other", 400), relu = node("relu y", 400);
  const WorkSeconds guessed = work_seconds({other}, 0, times, 1, machine(), 1);
  EXPECT_NEAR(guessed.seconds, 3 * 500e-9, 1e-15);
  EXPECT_EQ(guessed.measured, 0);
  EXPECT_NEAR(work_seconds({relu}, 1, times, 1, machine(), 1).seconds, 400e-9 + 100e-9, 1e-15)
      << "the plain roofline, and the start of a strand";
}

TEST(OpTimes, EqualNodesAreJoined) {
  const NodeWork a = node("matmul a", 900), b = node("relu b", 10, 2);
  const Work work = joined({b, a, b});
  ASSERT_EQ(work.size(), 2U);
  EXPECT_EQ(work[0].key, a.key);
  EXPECT_EQ(work[0].count, 1);
  EXPECT_EQ(work[1].count, 4);
}

TEST(OpTimes, SurviveTheirFile) {
  OpTimes times;
  times.processor = "a processor|a library";
  times.put("matmul f32[2,3]|blas|1 threads", 4, took(node("matmul", 12), 0.125));
  times.put("relu f32[2]|fast|1 threads", 1, took(node("relu", 2), 1e-7));
  std::vector<std::string> ignored;
  EXPECT_EQ(op_times_from_json(to_json(times), ignored), times);
  EXPECT_TRUE(ignored.empty());
}

TEST(OpTimes, EntriesThatMakeNoSenseAreLeftOutWithAWord) {
  OpTimes times;
  times.processor = "here";
  times.put("a|1 threads", 1, took(node("a", 1), 1));
  times.put("b|1 threads", 1, took(node("b", 1), 1));
  const auto broken = [&](const char* key, const Json& value) {
    Json json = to_json(times);
    json["entries"][1][key] = value;
    std::vector<std::string> ignored;
    const OpTimes read = op_times_from_json(json, ignored);
    EXPECT_EQ(read.entries().size(), 1U) << key;
    EXPECT_NE(read.find("a|1 threads", 1), nullptr) << key;
    ASSERT_EQ(ignored.size(), 1U) << key;
    EXPECT_NE(ignored[0].find("op time 1"), std::string::npos) << ignored[0];
  };
  broken("seconds", -1);
  broken("seconds", "long");
  broken("runs", 0);
  broken("at_once", 0);
  broken("family", "");
  broken("node", "a|1 threads");
  std::vector<std::string> ignored;
  EXPECT_TRUE(op_times_from_json(Json::array(), ignored).is_empty());
  EXPECT_EQ(ignored.size(), 1U);
}

TEST(OpTimes, WithoutThemOrTheNodesRatesAreThoseOfTheRoofline) {
  const NodeWork a = node("matmul a", 1000);
  const OpCost whole{.flops = 5000};
  Rates rates;
  rates.machine = machine();
  const double roofline = to_seconds(compute_time(whole, rates.machine, 1));
  EXPECT_EQ(rates.seconds(whole, {a}, 1).seconds, roofline);
  auto times = std::make_shared<OpTimes>();
  times->put(a.key, 6, took(a, 0.25));
  times->put(strand_key(1), 6, {.family = kStrandFamily, .seconds = 0, .runs = 5});
  rates.op_times = times;
  rates.ranks_at_once = 3;
  EXPECT_EQ(rates.seconds(whole, {}, 1).seconds, roofline);
  EXPECT_EQ(rates.seconds(whole, {a}, 1, 1, 2).measured, 0.25) << "two of each of three ranks";
}

}  // namespace
}  // namespace trireme::cost
