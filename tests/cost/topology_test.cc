// Topologies: sizes, ways and what messages meet on them, against what the papers and the headers say.
#include "trireme/cost/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "trireme/cost/routes.h"

namespace trireme::cost {
namespace {

constexpr LinkModel kLink{.latency_ns = 1000, .bytes_per_second = 1e9, .message_overhead_ns = 20};

std::size_t hops(const Topology& t, int a, int b) { return Routes(t).path(a, b).size(); }

// Longest and shortest ways over all pairs; fails when a path is no path.
void expect_whole(const Topology& t) {
  ASSERT_TRUE(check_topology(t).ok()) << check_topology(t).message();
  Routes routes(t);
  for (int a = 0; a < t.num_machines(); ++a)
    for (int b = 0; b < t.num_machines(); ++b) {
      const auto way = routes.path(a, b);
      EXPECT_EQ(way.empty(), a == b) << t.name << " " << a << " " << b;
      std::int32_t at = a;
      for (const std::int32_t l : way) {
        const TopologyLink& link = routes.links()[static_cast<std::size_t>(l)];
        ASSERT_EQ(link.from, at) << t.name << " " << a << " " << b;
        at = link.to;
        if (!t.machines_forward && at != b) {
          EXPECT_GE(at, t.num_machines()) << "through a machine";
        }
      }
      ASSERT_EQ(at, b);
      EXPECT_EQ(way, routes.path(a, b)) << "always the same way";
    }
}

TEST(Topology, ASwitchIsOneLinkUpAndOneDownWithTheLatencyOnTheWayUp) {
  const Topology t = Topology::single_switch(5, {}, kLink);
  expect_whole(t);
  Routes routes(t);
  EXPECT_EQ(routes.path(3, 1), (std::vector<std::int32_t>{6, 3}));
  const LinkModel m = routes.path_model(3, 1);
  EXPECT_EQ(m.latency_ns, 1000);
  EXPECT_EQ(m.message_overhead_ns, 20);
  EXPECT_EQ(m.bytes_per_second, 1e9);
  EXPECT_EQ(routes.path_model(2, 2).latency_ns, t.local.latency_ns);
}

TEST(Topology, RacksHaveUplinksOfTheirShareAndMachinesOfARackSeeOneSwitch) {
  const Topology t = *two_level(
      {.num_machines = 10, .per_rack = 4, .oversubscription = 2, .uplink_latency_ns = 300}, {}, kLink);
  expect_whole(t);
  EXPECT_EQ(t.num_switches(), 4);
  EXPECT_EQ(t.group, (std::vector<std::int32_t>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2}));
  Routes routes(t);
  EXPECT_EQ(routes.path(0, 3).size(), 2U);
  EXPECT_EQ(routes.path_model(0, 3).latency_ns, 1000);
  const auto far = routes.path(0, 9);
  ASSERT_EQ(far.size(), 4U);
  EXPECT_EQ(routes.links()[static_cast<std::size_t>(far[1])].model.bytes_per_second, 2e9);
  EXPECT_EQ(routes.path_model(0, 9).latency_ns, 1000 + 300 + 300);
  EXPECT_EQ(routes.path_model(0, 9).bytes_per_second, 1e9);
  EXPECT_EQ(two_level({.num_machines = 4, .per_rack = 0}, {}, kLink).status().code(), Code::kInvalid);
  EXPECT_EQ(two_level({.num_machines = 4, .oversubscription = 0}, {}, kLink).status().code(), Code::kInvalid);
}

TEST(Topology, AFatTreeOfKHasTheSwitchesAndWaysOfItsPaper) {
  const Topology t = *fat_tree({.num_machines = 16, .k = 4}, {}, kLink);
  expect_whole(t);
  EXPECT_EQ(t.num_switches(), 20);         // 5 k^2 / 4
  EXPECT_EQ(t.links.size(), 2U * 3 * 16);  // k^3 / 4 cables per level
  EXPECT_EQ(hops(t, 0, 1), 2U);            // below one edge switch
  EXPECT_EQ(hops(t, 0, 2), 4U);            // in one pod
  EXPECT_EQ(hops(t, 0, 15), 6U);
  const Topology large = *fat_tree({.num_machines = 1024}, {}, kLink);
  EXPECT_EQ(large.num_switches(), 5 * 16 * 16 / 4);
  const Topology part = *fat_tree({.num_machines = 17}, {}, kLink);  // k = 6, two of its pods
  expect_whole(part);
  EXPECT_EQ(part.num_switches(), 9 + 2 * 6);
  EXPECT_EQ(fat_tree({.num_machines = 17, .k = 4}, {}, kLink).status().code(), Code::kInvalid);
  EXPECT_EQ(fat_tree({.num_machines = 2, .k = 3}, {}, kLink).status().code(), Code::kInvalid);
}

TEST(Topology, AFatTreeSpreadsItsPairsOverAllCoreSwitches) {
  for (const Spread spread : {Spread::kHash, Spread::kDestination}) {
    const Topology t = *fat_tree({.num_machines = 128, .k = 8, .spread = spread}, {}, kLink);
    Routes routes(t);
    std::set<std::int32_t> cores;
    for (int m = 0; m < 64; ++m)
      cores.insert(routes.links()[static_cast<std::size_t>(routes.path(m, m + 64)[2])].to);
    EXPECT_GT(cores.size(), 12U) << static_cast<int>(spread);
  }
}

TEST(Topology, RoutesByDestinationNeverShareALinkInAShift) {
  const Topology t = *fat_tree({.num_machines = 128, .k = 8, .spread = Spread::kDestination}, {}, kLink);
  Routes routes(t);
  for (const int shift : {1, 3, 17, 64, 100}) {
    std::set<std::int32_t> used;
    std::size_t total = 0;
    for (int m = 0; m < 128; ++m) {
      const auto way = routes.path(m, (m + shift) % 128);
      total += way.size();
      used.insert(way.begin(), way.end());
    }
    EXPECT_EQ(used.size(), total) << shift;
  }
  EXPECT_EQ(summarise(t).oversubscription, 1);
}

TEST(Topology, DevicesBelowOnePcieSwitchDoNotMeetTheRootComplex) {
  const Topology t = *pcie_tree({.num_sockets = 2, .switches_per_socket = 2, .per_switch = 2}, {});
  expect_whole(t);
  EXPECT_EQ(t.num_machines(), 8);
  EXPECT_EQ(hops(t, 0, 1), 2U);
  EXPECT_EQ(hops(t, 0, 2), 4U);  // over the root complex
  EXPECT_EQ(hops(t, 0, 7), 5U);  // and to the other socket
  EXPECT_EQ(t.group, (std::vector<std::int32_t>{0, 0, 0, 0, 1, 1, 1, 1}));
}

TEST(Topology, Dgx1HasFourLinksPerDeviceAndPcieForTheOtherPairs) {
  const Topology t = *dgx1({}, {});
  expect_whole(t);
  for (int a = 0; a < 8; ++a) {
    int direct = 0;
    for (int b = 0; b < 8; ++b) direct += hops(t, a, b) == 1 ? 1 : 0;
    EXPECT_EQ(direct, 4) << a;
  }
  EXPECT_EQ(hops(t, 0, 4), 1U);
  EXPECT_EQ(hops(t, 0, 5), 5U) << "devices do not forward";
}

TEST(Topology, ATorusGoesTheShorterWayRoundInOrderOfDimension) {
  const int sizes[] = {4, 3, 2};
  const Topology t = *torus(sizes, {}, kLink);
  expect_whole(t);
  EXPECT_EQ(t.num_machines(), 24);
  EXPECT_EQ(t.links.size(), 24U * 2 + 24U * 2 + 24U);  // two neighbours in a ring of two are one
  EXPECT_EQ(hops(t, 0, 3), 1U);                        // round the ring of four
  EXPECT_EQ(hops(t, 0, 2), 2U);
  EXPECT_EQ(hops(t, 0, 23), 3U);
  Routes routes(t);
  const auto way = routes.path(0, 5);  // (1, 1, 0): first along the first dimension
  ASSERT_EQ(way.size(), 2U);
  EXPECT_EQ(routes.links()[static_cast<std::size_t>(way[0])].to, 1);
  EXPECT_EQ(routes.path_model(0, 5).latency_ns, 2000);
}

TEST(Topology, ADragonflyReachesEveryGroupOverOneGlobalCable) {
  const Topology t = *dragonfly({.num_groups = 5, .routers = 4, .per_router = 2}, {}, kLink);
  expect_whole(t);
  EXPECT_EQ(t.num_machines(), 40);
  for (int b = 1; b < 40; ++b) EXPECT_LE(hops(t, 0, b), 5U);  // local, global, local and the machines' own
  EXPECT_EQ(hops(t, 0, 1), 2U);
  EXPECT_EQ(hops(t, 0, 7), 3U);
}

TEST(Topology, SlimFlyHasDiameterTwoBetweenItsRouters) {
  const Topology t = *slim_fly({.num_machines = 50, .q = 5}, {}, kLink);
  expect_whole(t);
  EXPECT_EQ(t.num_switches(), 50);
  EXPECT_EQ(t.links.size(), 2U * 50 + 50U * 7);  // machines' cables, and degree (3 q - 1) / 2 per router
  for (int a = 0; a < 50; ++a)
    for (int b = 0; b < 50; ++b) EXPECT_LE(hops(t, a, b), 4U);
  EXPECT_EQ(slim_fly({.num_machines = 2, .q = 9}, {}, kLink).status().code(), Code::kInvalid);
}

TEST(Topology, EveryPresetIsWhole) {
  for (const Preset& p : topology_presets()) {
    const Result<Topology> t = p.make(8, {});
    ASSERT_TRUE(t.ok()) << p.name;
    EXPECT_EQ(t->name, p.name);
    expect_whole(*t);
  }
  for (const char* host : {"dgx1", "pcie"}) {
    EXPECT_THAT(find_preset(host).value()->make(9, {}).status().message(),
                ::testing::HasSubstr("got 9, expected 1 to 8"));
    EXPECT_EQ(find_preset(host).value()->make(0, {}).status().code(), Code::kInvalid);
  }
  EXPECT_THAT(find_preset("dgx9").status().message(), ::testing::HasSubstr("fdr-infiniband"));
}

TEST(Topology, TheFirstDevicesOfAHostAreAsFarFromEachOtherAsInAllOfIt) {
  for (const char* host : {"dgx1", "pcie"}) {
    const Topology all = *find_preset(host).value()->make(8, {});
    for (const int n : {1, 2, 3, 4, 7}) {
      const Result<Topology> some = find_preset(host).value()->make(n, {});
      ASSERT_TRUE(some.ok()) << host << " " << n << ": " << some.status().message();
      EXPECT_EQ(some->num_machines(), n);
      expect_whole(*some);
      for (int a = 0; a < n; ++a)
        for (int b = 0; b < n; ++b) EXPECT_EQ(hops(*some, a, b), hops(all, a, b)) << host << n;
    }
  }
}

TEST(Topology, WhatMakesNoSenseIsRefused) {
  Topology t = *two_level({.num_machines = 4, .per_rack = 2}, {}, kLink);
  t.links[3].model.bytes_per_second = 0;
  EXPECT_THAT(check_topology(t).message(), ::testing::HasSubstr("link 3"));
  t = *two_level({.num_machines = 4, .per_rack = 2}, {}, kLink);
  t.links[0].to = 99;
  EXPECT_THAT(check_topology(t).message(), ::testing::HasSubstr("from 0 to 99"));
  t = *two_level({.num_machines = 4, .per_rack = 2}, {}, kLink);
  t.links.resize(t.links.size() - 1);  // nothing comes down into the second rack any more
  EXPECT_THAT(check_topology(t).message(), ::testing::HasSubstr("there is no way from machine"));
  t.machines.clear();
  EXPECT_FALSE(check_topology(t).ok());
}

TEST(Topology, CountsWhoseProductIsBeyondAnyClusterAreRefused) {
  const int large = 1 << 30;
  DragonflySpec dragonfly_spec;
  dragonfly_spec.num_groups = large;
  EXPECT_EQ(dragonfly(dragonfly_spec, {}, {}).status().code(), Code::kInvalid);
  SlimFlySpec slim;
  slim.per_router = large;
  EXPECT_EQ(slim_fly(slim, {}, {}).status().code(), Code::kInvalid);
  PcieTreeSpec tree;
  tree.num_sockets = tree.switches_per_socket = tree.per_switch = large;
  EXPECT_EQ(pcie_tree(tree, {}).status().code(), Code::kInvalid);
  Dgx1Spec box;
  box.pcie = tree;
  EXPECT_EQ(dgx1(box, {}).status().code(), Code::kInvalid);
  const int sizes[] = {large, large, large};
  EXPECT_EQ(torus(sizes, {}, {}).status().code(), Code::kInvalid);
}

TEST(Topology, GroupsAreMachinesWithSeveralRanksOrElseRacks) {
  const Topology t = *two_level({.num_machines = 4, .per_rack = 2}, {}, kLink);
  EXPECT_EQ(group_of(t, std::vector<int>{0, 1, 2, 3}), (std::vector<std::int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(group_of(t, std::vector<int>{0, 0, 2, 3}), (std::vector<std::int32_t>{0, 0, 2, 3}));
  EXPECT_EQ(group_of(Topology::single_switch(3, {}, kLink), std::vector<int>{0, 1, 2}),
            (std::vector<std::int32_t>{0, 1, 2}));
}

TEST(Topology, ASummaryTellsNearFromFarAndHowNarrowTheMiddleIs) {
  const TopologySummary s = summarise(*two_level(
      {.num_machines = 32, .per_rack = 8, .oversubscription = 4, .uplink_latency_ns = 500}, {}, kLink));
  EXPECT_EQ(s.near.latency_ns, 1000);
  EXPECT_EQ(s.far.latency_ns, 2000);
  EXPECT_GT(s.typical.latency_ns, 1000);
  EXPECT_LT(s.typical.latency_ns, 2000);
  EXPECT_DOUBLE_EQ(s.oversubscription, 4);
  EXPECT_EQ(summarise(Topology::single_switch(8, {}, kLink)).oversubscription, 1);
  EXPECT_EQ(summarise(*fat_tree({.num_machines = 1024}, {}, kLink)).near.latency_ns, 1000);
}

}  // namespace
}  // namespace trireme::cost
