// Collectives on virtual clusters: every kind and algorithm runs, times obey the topology, faults strike.
#include "trireme/start/simulate_collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::start {
namespace {

using collective::Kind;

CollectiveOptions on(Result<cost::Topology> topology, int ranks, std::uint64_t bytes) {
  CollectiveOptions o;
  o.ranks = ranks;
  o.bytes = bytes;
  o.world.topology = std::move(topology).value();
  return o;
}

CollectiveRow run(const CollectiveOptions& o, const char* algorithm) {
  EXPECT_TRUE(check_collective_options(o).ok());
  return simulate_collective(o, *collective::find_algorithm(o.kind, algorithm).value());
}

TEST(SimulateCollective, EveryRowOfTheTableRunsOnEveryShapeOfCluster) {
  for (const int per_machine : {1, 4}) {
    CollectiveOptions o = on(cost::fat_tree({.num_machines = 12 / per_machine}, {}, {}), 12, 48'000);
    o.ranks_per_machine = per_machine;
    for (const collective::Algorithm& row : collective::algorithm_table()) {
      o.kind = row.kind;
      const CollectiveRow r = simulate_collective(o, row);
      ASSERT_TRUE(r.applicable.ok()) << row.name << ": " << r.applicable.message();
      EXPECT_TRUE(r.result.ok()) << row.name << ": " << r.result.message();
      EXPECT_GT(r.time, 0) << row.name;
      EXPECT_GT(r.predicted, 0) << row.name;
      EXPECT_GT(r.messages, 0U) << row.name;
      EXPECT_GT(r.rounds, 0) << row.name;
    }
  }
}

TEST(SimulateCollective, ARingSendsItsBytesAndTakesItsRounds) {
  constexpr int kRanks = 8;
  constexpr std::uint64_t kBytes = 8 << 20;
  const CollectiveOptions o = on(cost::Topology::single_switch(kRanks, {}, {}), kRanks, kBytes);
  const CollectiveRow r = run(o, "ring");
  EXPECT_EQ(r.rounds, 2 * (kRanks - 1));
  // Beside the data a rank may tell the others how it called.
  EXPECT_GE(r.messages, 2U * (kRanks - 1) * kRanks);
  EXPECT_LE(r.messages, 2U * (kRanks - 1) * kRanks + 4 * kRanks);
  EXPECT_GE(r.bytes_per_rank, 2 * (kRanks - 1) * (kBytes / kRanks + 48));
  EXPECT_LE(r.bytes_per_rank, 2 * (kRanks - 1) * (kBytes / kRanks + 48) + 4096);
  const cost::LinkModel link;
  const TimeNs wire = 2 * (kRanks - 1) * cost::transfer_time(kBytes / kRanks, link);
  EXPECT_GT(r.time, wire);
  EXPECT_LT(r.time, 2 * wire);
}

TEST(SimulateCollective, AnOversubscribedUplinkHurtsTheButterflyMoreThanTheHierarchy) {
  const auto racks = [](double oversubscription) {
    return cost::two_level(
        {.num_machines = 32, .per_rack = 8, .oversubscription = oversubscription, .uplink_latency_ns = 1000},
        {}, {});
  };
  const CollectiveOptions full = on(racks(1), 32, 4 << 20), narrow = on(racks(8), 32, 4 << 20);
  const auto slowdown = [&](const char* algorithm) {
    return static_cast<double>(run(narrow, algorithm).time) / static_cast<double>(run(full, algorithm).time);
  };
  EXPECT_GT(slowdown("butterfly"), 2);
  EXPECT_LT(slowdown("ring"), 1.05) << "one flow crosses each uplink";
  EXPECT_LT(run(narrow, "hierarchical").time, run(narrow, "butterfly").time);
}

TEST(SimulateCollective, TheSameSeedGivesTheSameTraceAndFaultsMakeItLonger) {
  CollectiveOptions o = on(cost::Topology::single_switch(8, {}, {}), 8, 1 << 20);
  o.deadline = 60 * kSecond;
  const CollectiveRow plain = run(o, "ring");
  runtime::NetworkFault loss;
  loss.probability = 0.1;
  o.world.network.faults = {loss};
  o.world.network.resend_after = 10 * kMilli;
  const CollectiveRow first = run(o, "ring"), again = run(o, "ring");
  EXPECT_TRUE(first.result.ok()) << first.result.message();
  EXPECT_EQ(first.trace_hash, again.trace_hash);
  EXPECT_EQ(first.time, again.time);
  EXPECT_GT(first.time, plain.time + 10 * kMilli);
  o.world.seed = 2;
  EXPECT_NE(run(o, "ring").trace_hash, first.trace_hash);
}

TEST(SimulateCollective, AKilledRankIsNamedByTheOthers) {
  CollectiveOptions o = on(cost::Topology::single_switch(4, {}, {}), 4, 1 << 20);
  runtime::FaultSpec kill;
  kill.runtime = 2;
  kill.at = 500 * kMicro;
  o.world.faults = {kill};
  o.deadline = 2 * kSecond;
  const CollectiveRow r = run(o, "ring");
  EXPECT_FALSE(r.result.ok());
  EXPECT_EQ(r.num_failed, 4);
  EXPECT_EQ(r.result.code(), Code::kPeerLost);
  EXPECT_THAT(r.result.message(), ::testing::HasSubstr("rank 2"));
  EXPECT_LT(r.time, kSecond);
}

TEST(SimulateCollective, APartitionThatHealsInTimeCostsTimeAndAnotherOneTheGroup) {
  CollectiveOptions o = on(cost::Topology::single_switch(4, {}, {}), 4, 1 << 20);
  o.deadline = 2 * kSecond;
  runtime::NetworkFault partition;
  partition.kind = runtime::NetworkFault::Kind::kPartition;
  partition.from = {0, 1};
  partition.to = {2, 3};
  partition.duration = 500 * kMilli;
  o.world.network.faults = {partition};
  const CollectiveRow healed = run(o, "ring");
  EXPECT_TRUE(healed.result.ok()) << healed.result.message();
  EXPECT_GT(healed.time, 500 * kMilli);
  o.world.network.faults[0].duration = kForever;
  const CollectiveRow lost = run(o, "ring");
  EXPECT_EQ(lost.num_failed, 4);
  EXPECT_EQ(lost.result.code(), Code::kPeerLost) << lost.result.message();
  EXPECT_LT(lost.time, 3 * kSecond);
}

TEST(SimulateCollective, OptionsThatMakeNoSenseAreRefused) {
  CollectiveOptions o = on(cost::Topology::single_switch(4, {}, {}), 8, 1 << 20);
  EXPECT_THAT(check_collective_options(o).message(), ::testing::HasSubstr("4 machines"));
  o.ranks_per_machine = 2;
  EXPECT_TRUE(check_collective_options(o).ok());
  o.root = 8;
  EXPECT_THAT(check_collective_options(o).message(), ::testing::HasSubstr("expected 0..7"));
}

}  // namespace
}  // namespace trireme::start
