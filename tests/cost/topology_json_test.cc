#include "trireme/cost/topology_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/cost/quantity.h"
#include "trireme/cost/routes.h"

namespace trireme::cost {
namespace {

using ::testing::HasSubstr;

Result<Topology> parse(const char* text, int num_machines = 0) {
  return topology_from_json(*parse_json(text, "test"), num_machines);
}

TEST(Quantity, TimesAndRatesAreReadWithTheirUnits) {
  EXPECT_EQ(*parse_duration("25us"), 25'000);
  EXPECT_EQ(*parse_duration("1.5 ms"), 1'500'000);
  EXPECT_EQ(*parse_duration("2s"), 2 * kSecond);
  EXPECT_EQ(*parse_bandwidth("10gbit"), 1.25e9);
  EXPECT_EQ(*parse_bandwidth("10 Gbit/s"), 1.25e9);
  EXPECT_EQ(*parse_bandwidth("1.5GB/s"), 1.5e9);
  for (const char* text : {"", "25", "us", "-1us", "1e400s", "10 parsec"})
    EXPECT_FALSE(parse_duration(text).ok()) << text;
  for (const char* text : {"", "10", "gbit", "0gbit", "-1gbit", "10 gallon"})
    EXPECT_FALSE(parse_bandwidth(text).ok()) << text;
}

TEST(TopologyJson, EveryNameMakesAClusterOfItsDefaultParameters) {
  for (const std::string& name : topology_names()) {
    if (name == "explicit") continue;
    const bool has_its_own_size = name == "dragonfly";
    const Result<Topology> t = topology_from_json(Json{{"topology", name}}, has_its_own_size ? 12 : 8);
    ASSERT_TRUE(t.ok()) << name << ": " << t.status().message();
    EXPECT_EQ(t->num_machines(), has_its_own_size ? 12 : 8) << name;
  }
}

TEST(TopologyJson, ParametersReachTheTopology) {
  const Result<Topology> t = parse(R"({
    "topology": "two-level", "machines": 8, "per_rack": 4, "oversubscription": 2, "uplink_latency": "3us",
    "link": {"latency": "10us", "bandwidth": "1gbit", "overhead": 500, "jitter": 0.25},
    "local": {"latency": 100}, "machine": {"cores": 16, "gflops_per_core": 10, "memory": "40GB/s"},
    "override": [{"machines": [3, 5], "speed": 0.5}]})");
  ASSERT_TRUE(t.ok()) << t.status().message();
  Routes routes(*t);
  EXPECT_EQ(routes.path_model(0, 4).latency_ns, 16'000);
  EXPECT_EQ(routes.path_model(0, 4).bytes_per_second, 125e6);
  EXPECT_EQ(routes.path_model(0, 4).message_overhead_ns, 500);
  EXPECT_EQ(t->links[0].jitter, 0.25);
  EXPECT_EQ(t->local.latency_ns, 100);
  EXPECT_EQ(t->machines[0].cores, 16);
  EXPECT_EQ(t->machines[0].flops_per_second_per_core, 10e9);
  EXPECT_EQ(t->machines[3].speed, 0.5);
  EXPECT_EQ(t->machines[3].cores, 16);
  EXPECT_EQ(t->machines[4].speed, 1);
}

TEST(TopologyJson, AnExplicitTopologyIsItsCables) {
  const Result<Topology> t = parse(R"({
    "topology": "explicit", "machines": 3, "switches": 1, "groups": [0, 0, 1],
    "link": {"latency": "1us"},
    "cables": [{"from": "m0", "to": "s0"}, {"from": "m1", "to": "s0", "bandwidth": "1gbit"}],
    "links": [{"from": "m2", "to": "s0"}, {"from": "s0", "to": "m2", "latency": "9us"}]})");
  ASSERT_TRUE(t.ok()) << t.status().message();
  Routes routes(*t);
  EXPECT_EQ(routes.path_model(0, 2).latency_ns, 10'000);
  EXPECT_EQ(routes.path_model(2, 0).latency_ns, 2'000);
  EXPECT_EQ(routes.path_model(2, 1).bytes_per_second, 125e6);
}

TEST(TopologyJson, WhatIsWrittenReadsTheSame) {
  for (const char* name : {"single-switch", "fat-tree", "cloud", "torus", "dgx1"}) {
    Topology t = *topology_from_json(Json{{"topology", name}}, 8);
    t.machines[2].speed = 0.5;
    const Json written = to_json(t);
    const Result<Topology> back = topology_from_json(written, 0);
    ASSERT_TRUE(back.ok()) << name << ": " << back.status().message();
    EXPECT_EQ(to_json(*back), written) << name;
    EXPECT_EQ(back->links.size(), t.links.size()) << name;
    EXPECT_EQ(back->machines[2].speed, 0.5);
    Routes a(t), b(*back);
    for (int from = 0; from < 8; ++from)
      for (int to = 0; to < 8; ++to) EXPECT_EQ(a.path(from, to), b.path(from, to)) << name;
  }
}

TEST(TopologyJson, MistakesNameTheFieldAndWhatWasExpected) {
  const std::pair<const char*, const char*> mistakes[] = {
      {R"([])", "the file: got array, expected a table"},
      {R"({"topology": "star"})", "topology: got 'star', expected one of single-switch, two-level"},
      {R"({"topology": "fat-tree"})", "machines: got none"},
      {R"({"machines": 0})", "machines: got 0, expected 1..1048576"},
      {R"({"machines": "four"})", "machines: got \"four\", expected an integer"},
      {R"({"machines": 2, "racks": 2})", "racks: unknown key; there are: "},
      {R"({"machines": 2, "link": {"latency": "soon"}})", "link.latency: got \"soon\", expected a time"},
      {R"({"machines": 2, "link": {"bandwidth": 0}})", "link.bandwidth: got 0, expected a bandwidth"},
      {R"({"machines": 2, "link": {"jitter": -1}})", "link.jitter: got -1, expected 0..100"},
      {R"({"machines": 2, "link": 5})", "link: got number, expected a table"},
      {R"({"machines": 2, "machine": {"cores": 0}})", "machine.cores: got 0"},
      {R"({"machines": 2, "override": [{"machines": [2], "speed": 2}]})",
       "override[0].machines: got 2, expected 0..1"},
      {R"({"machines": 2, "override": [{"machines": [1], "pace": 2}]})", "override[0].pace: unknown key"},
      {R"({"machines": 2, "topology": "fat-tree", "k": 3})", "expected an even number"},
      {R"({"machines": 2, "topology": "fat-tree", "spread": "wide"})",
       "spread: got 'wide', expected first, hash"},
      {R"({"machines": 4, "topology": "dgx1"})", "machines: got 4, expected 8"},
      {R"({"machines": 4, "topology": "cloud", "link": {}})", "link: got a table, expected none"},
      {R"({"machines": 2, "topology": "explicit"})", "cables: got none"},
      {R"({"machines": 2, "topology": "explicit", "cables": [{"from": "m0"}]})", "cables[0].to: got no end"},
      {R"({"machines": 2, "topology": "explicit", "cables": [{"from": "m0", "to": "m2"}]})",
       "cables[0].to: got 'm2', expected a machine m0..m1"},
      {R"({"machines": 3, "topology": "explicit", "cables": [{"from": "m0", "to": "m1"}]})",
       "there is no way from machine"},
  };
  for (const auto& [text, says] : mistakes) {
    const Result<Topology> t = parse(text);
    EXPECT_FALSE(t.ok()) << text;
    EXPECT_THAT(t.status().message(), HasSubstr(says)) << text;
  }
}

}  // namespace
}  // namespace trireme::cost
