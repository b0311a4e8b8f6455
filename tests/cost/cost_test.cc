#include "trireme/cost/cost.h"

#include <gtest/gtest.h>

#include "trireme/cost/cost_json.h"
#include "trireme/cost/topology.h"

namespace trireme::cost {
namespace {

MachineModel simple_machine() {
  return {.name = "m",
          .cores = 4,
          .flops_per_second_per_core = 1e9,
          .bytes_per_second = 1e9,
          .op_overhead_ns = 100,
          .speed = 1.0};
}

TEST(Cost, TimeIsTheSlowerOfArithmeticAndMemoryPlusTheOverhead) {
  EXPECT_EQ(compute_time({1000, 10}, simple_machine(), 1), 100 + 1000);
  EXPECT_EQ(compute_time({10, 1000}, simple_machine(), 1), 100 + 1000);
  EXPECT_EQ(compute_time({}, simple_machine(), 1), 100);
}

TEST(Cost, ThreadsSpeedUpArithmeticUpToTheCoresButNotMemory) {
  EXPECT_EQ(compute_time({1000, 0}, simple_machine(), 2), 100 + 500);
  EXPECT_EQ(compute_time({1000, 0}, simple_machine(), 99), 100 + 250);
  EXPECT_EQ(compute_time({1000, 0}, simple_machine(), 0), 100 + 1000);
  EXPECT_EQ(compute_time({0, 1000}, simple_machine(), 4), 100 + 1000);
}

TEST(Cost, ASlowMachineTakesLonger) {
  MachineModel slow = simple_machine();
  slow.speed = 0.25;
  EXPECT_EQ(compute_time({1000, 0}, slow, 1), 100 + 4000);
}

TEST(Cost, CostsAddUp) { EXPECT_EQ((OpCost{1, 2} + OpCost{3, 4}), (OpCost{4, 6})); }

TEST(Cost, OccupancyOfALinkIsBytesOverBandwidth) {
  EXPECT_EQ(transfer_time(1250, {.latency_ns = 5, .bytes_per_second = 1.25e9, .message_overhead_ns = 5}),
            1000);
  EXPECT_EQ(transfer_time(0, {}), 0);
}

TEST(Cost, ASwitchConnectsEqualMachines) {
  const Topology t = Topology::single_switch(3, simple_machine(), {.latency_ns = 7});
  EXPECT_EQ(t.machines.size(), 3U);
  EXPECT_EQ(t.machines[2].cores, 4);
  EXPECT_EQ(t.up.latency_ns, 7);
  EXPECT_EQ(t.down.latency_ns, 7);
}

TEST(Cost, ModelsSurviveJson) {
  const auto machine = machine_from_json(to_json(simple_machine()));
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(to_json(*machine), to_json(simple_machine()));
  const LinkModel link{.latency_ns = 1, .bytes_per_second = 2, .message_overhead_ns = 3};
  EXPECT_EQ(to_json(*link_from_json(to_json(link))), to_json(link));
}

TEST(Cost, ModelsThatMakeNoSenseAreRefused) {
  Json machine = to_json(simple_machine());
  machine["cores"] = 0;
  EXPECT_EQ(machine_from_json(machine).status().code(), Code::kInvalid);
  machine.erase("cores");
  EXPECT_EQ(machine_from_json(machine).status().code(), Code::kCorrupt);
  Json link = to_json(LinkModel{});
  link["bytes_per_second"] = 0;
  EXPECT_EQ(link_from_json(link).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace trireme::cost
