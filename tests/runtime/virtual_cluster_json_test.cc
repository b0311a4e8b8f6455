#include "trireme/runtime/virtual/cluster_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::runtime {
namespace {

using ::testing::HasSubstr;

Result<WorldSpec> parse(const char* text) { return world_from_json(*parse_json(text, "test"), 0); }

TEST(ClusterJson, AFileHasTheTopologyAndEveryKindOfFault) {
  const Result<WorldSpec> w = parse(R"({
    "topology": "two-level", "machines": 8, "per_rack": 4, "seed": 9, "jitter": 0.5,
    "raw_faults": true, "resend_after": "50ms", "max_resends": 3,
    "fault": [
      {"kind": "kill", "rank": 2, "at": "1ms"},
      {"kind": "pause", "rank": 1, "site": "collective", "index": 7, "duration": "3s"},
      {"kind": "slow", "rank": 0, "factor": 4},
      {"kind": "restart", "rank": 3, "at": "1s", "duration": "2s"},
      {"kind": "loss", "probability": 0.01, "from": [0, 1], "to": 5, "one_way": true},
      {"kind": "delay", "delay": "2ms", "link": 3},
      {"kind": "partition", "from": [0, 1, 2, 3], "to": [4, 5, 6, 7], "at": "1s", "duration": "500ms"},
      {"kind": "disk-error", "probability": 0.1, "machine": [1, 2]},
      {"kind": "disk-full", "capacity": "64K"}]})");
  ASSERT_TRUE(w.ok()) << w.status().message();
  EXPECT_EQ(w->topology.num_machines(), 8);
  EXPECT_EQ(w->seed, 9U);
  EXPECT_EQ(w->latency_jitter, 0.5);
  EXPECT_TRUE(w->network.raw);
  EXPECT_EQ(w->network.resend_after, 50 * kMilli);
  EXPECT_EQ(w->network.max_resends, 3);
  ASSERT_EQ(w->faults.size(), 4U);
  EXPECT_EQ(w->faults[0].at, kMilli);
  EXPECT_EQ(w->faults[0].runtime, 2);
  EXPECT_EQ(w->faults[1].kind, FaultSpec::Kind::kPause);
  EXPECT_EQ(w->faults[1].site, "collective");
  EXPECT_EQ(w->faults[1].index, 7U);
  EXPECT_EQ(w->faults[2].factor, 4);
  EXPECT_EQ(w->faults[2].at, 0);
  EXPECT_EQ(w->faults[3].duration, 2 * kSecond);
  ASSERT_EQ(w->network.faults.size(), 3U);
  EXPECT_EQ(w->network.faults[0].to, (std::vector<int>{5}));
  EXPECT_TRUE(w->network.faults[0].one_way);
  EXPECT_EQ(w->network.faults[1].delay, 2 * kMilli);
  EXPECT_EQ(w->network.faults[2].kind, NetworkFault::Kind::kPartition);
  EXPECT_EQ(w->network.faults[2].duration, 500 * kMilli);
  ASSERT_EQ(w->disk_faults.size(), 3U);
  EXPECT_EQ(w->disk_faults[1].machine, 2);
  EXPECT_EQ(w->disk_faults[2].capacity_bytes, 65536U);
}

TEST(ClusterJson, MistakesNameTheFault) {
  const std::pair<const char*, const char*> mistakes[] = {
      {R"({"machines": 2, "fault": {}})", "fault: got object, expected a list of tables"},
      {R"({"machines": 2, "fault": [{}]})", "fault[0].kind: got none, expected one of kill, pause"},
      {R"({"machines": 2, "fault": [{"kind": "flood"}]})", "fault[0].kind: got 'flood'"},
      {R"({"machines": 2, "fault": [{"kind": "kill"}]})", "fault[0].rank: got none"},
      {R"({"machines": 2, "fault": [{"kind": "kill", "rank": 1, "probability": 1}]})",
       "fault[0].probability: unknown key"},
      {R"({"machines": 2, "fault": [{"kind": "kill", "rank": 1, "at": "1s", "site": "disk"}]})",
       "fault[0].at"},
      {R"({"machines": 2, "fault": [{"kind": "restart", "rank": 1}]})", "fault[0].duration: got none"},
      {R"({"machines": 2, "fault": [{"kind": "loss", "probability": 2}]})",
       "fault[0].probability: got 2, expected 0..1"},
      {R"({"machines": 2, "fault": [{"kind": "loss", "from": 2}]})",
       "fault[0].from: got 2, expected machines 0..1"},
      {R"({"machines": 2, "fault": [{"kind": "loss", "link": 4}]})", "fault[0].link: got 4, expected 0..3"},
      {R"({"machines": 2, "max_resends": 99})", "max_resends: got 99"},
      {R"({"machines": 2, "jitter": -1})", "jitter: got -1"},
  };
  for (const auto& [text, says] : mistakes) {
    const Result<WorldSpec> w = parse(text);
    EXPECT_FALSE(w.ok()) << text;
    EXPECT_THAT(w.status().message(), HasSubstr(says)) << text;
  }
}

TEST(ClusterJson, ATextIsAnObjectWithNumbersListsAndWords) {
  const Json expected{{"kind", "loss"},   {"probability", 0.25}, {"from", Json::array({0, 1, 2, 7})},
                      {"to", 3},          {"one_way", true},     {"at", "1ms"},
                      {"duration", "2s"}, {"link", -1}};
  const Result<Json> json = object_from_text(
      "loss,probability=0.25,from=0-2+7,to=3,one_way=true,at=1ms,duration=2s,link=-1", "kind");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(*json, expected);
  EXPECT_EQ(*object_from_text("fat-tree", "topology"), (Json{{"topology", "fat-tree"}}));
  for (const char* text : {"", ",", "loss,", "loss,probability", "probability=1", "loss,=3"})
    EXPECT_FALSE(object_from_text(text, "kind").ok()) << text;
}

}  // namespace
}  // namespace trireme::runtime
