#include "trireme/record/summary.h"

#include <gtest/gtest.h>

namespace trireme::record {
namespace {

TEST(Summary, StalenessIsTheMeanOverUpdates) {
  Summary s;
  EXPECT_EQ(s.mean_staleness(), 0);
  EXPECT_EQ(s.max_staleness(), 0);
  s.staleness = {{0, 2}, {1, 1}, {5, 1}};
  EXPECT_EQ(s.mean_staleness(), 1.5);
  EXPECT_EQ(s.max_staleness(), 5);
  const Json json = to_json(s);
  EXPECT_EQ(json["staleness"].dump(), R"({"mean":1.5,"max":5,"histogram":{"0":2,"1":1,"5":1}})");
}

TEST(Summary, ScalingEfficiencyIsAgainstWorkersThatAreEachAsFastAsOneAlone) {
  Summary s;
  s.samples_per_second = 900;
  s.measured_step_seconds = 0.1;
  s.exposed_seconds = 0.02;
  EXPECT_EQ(to_json(s)["scaling_efficiency"], 1);
  EXPECT_EQ(to_json(s)["scaling_efficiency_from"], "measured") << "one worker is its own measure";
  s.workers = 4;
  EXPECT_TRUE(to_json(s)["scaling_efficiency"].is_null()) << "nobody knows how fast one is";
  EXPECT_TRUE(to_json(s)["scaling_efficiency_from"].is_null());
  s.predicted_one_worker_rate = 300;
  EXPECT_EQ(to_json(s)["scaling_efficiency"], 0.75);
  EXPECT_EQ(to_json(s)["scaling_efficiency_from"], "predicted");
  EXPECT_EQ(to_json(s)["communication_efficiency"], 0.8) << "what is exposed, and nothing else";
}

TEST(Summary, LockStepWorkersWaitForTheOneThatIsBusyLongest) {
  std::vector<WorkerShare> shares(3);
  for (int w = 0; w < 3; ++w) shares[static_cast<std::size_t>(w)].worker = w;
  shares[0].compute_seconds = 1, shares[0].exposed_seconds = 4;
  shares[1].compute_seconds = 3, shares[1].data_seconds = 1, shares[1].exposed_seconds = 0.5;
  shares[2].compute_seconds = 2, shares[2].exposed_seconds = 1;
  attribute_waiting(shares);
  EXPECT_EQ(shares[0].waits_for, 1);
  EXPECT_EQ(shares[0].waiting_seconds, 3) << "the rest of its exposed time is communication";
  EXPECT_EQ(shares[1].waits_for, -1);
  EXPECT_EQ(shares[1].waiting_seconds, 0);
  EXPECT_EQ(shares[2].waiting_seconds, 1) << "no more than what was exposed";
  std::vector<WorkerShare> none;
  attribute_waiting(none);
}

TEST(Summary, WhereAFractionOfTheWorkersCompletesAStepTheFastWaitForTheLastOfThose) {
  std::vector<WorkerShare> shares(4);
  for (int w = 0; w < 4; ++w) {
    WorkerShare& s = shares[static_cast<std::size_t>(w)];
    s.worker = w;
    s.steps = w == 3 ? 2 : 10;  // a slow one takes part in few steps
    s.compute_seconds = w == 3 ? 8 : 1 + w;
    s.exposed_seconds = 5;
  }
  attribute_waiting(shares, 3);
  EXPECT_EQ(shares[0].waits_for, 2);
  EXPECT_DOUBLE_EQ(shares[0].waiting_seconds, 2);
  EXPECT_EQ(shares[2].waits_for, -1);
  EXPECT_EQ(shares[3].waits_for, -1) << "nobody waits for it, and it waits for nobody";
  shares[2].lost = true;
  attribute_waiting(shares, 3);
  EXPECT_EQ(shares[0].waits_for, 3) << "three are left";
}

TEST(Summary, TellsTheMemoryOfWorkersWhereAllOfThemKnowTheirs) {
  std::vector<WorkerShare> shares(2);
  shares[0].predicted_bytes = 3, shares[1].predicted_bytes = 4;
  shares[0].peak_bytes = 5;
  Summary s;
  take_memory(shares, s);
  EXPECT_EQ(to_json(s)["predicted_bytes_per_rank"], Json({3.0, 4.0}));
  EXPECT_FALSE(to_json(s).contains("peak_bytes_per_rank"));
  shares[1].peak_bytes = 6;
  take_memory(shares, s);
  EXPECT_EQ(to_json(s)["peak_bytes_per_rank"], Json({5.0, 6.0}));
}

TEST(Summary, SaysWhatEachWorkerDid) {
  Summary s;
  s.workers = 2;
  s.servers = 1;
  s.drift = 0.25;
  s.lost_workers = {1};
  s.rule = {{"outer_steps", 3}};
  WorkerShare share;
  share.worker = 1;
  share.waits_for = 0;
  share.lost = true;
  s.per_worker = {WorkerShare(), share};
  const Json json = to_json(s);
  EXPECT_EQ(json["servers"], 1);
  EXPECT_EQ(json["drift"], 0.25);
  EXPECT_EQ(json["lost_workers"].dump(), "[1]");
  EXPECT_EQ(json["rule"]["outer_steps"], 3);
  EXPECT_TRUE(json["per_worker"][0]["waits_for"].is_null());
  EXPECT_EQ(json["per_worker"][1]["waits_for"], 0);
  EXPECT_EQ(json["per_worker"][1]["lost"], true);
}

}  // namespace
}  // namespace trireme::record
