#include "trireme/net/coordinator.h"

#include <gtest/gtest.h>

#include "trireme/runtime/virtual/world.h"

namespace trireme::net {
namespace {

struct Port final : CoordinatorPort {
  int asked = 0, decided = 0;
  void send(int /*peer*/, ControlMessage /*message*/) override {}
  void broadcast(ControlMessage message) override { asked += message.type == ControlType::kCompare ? 1 : 0; }
  RankView own_view() override { return {}; }
  void compare_own(const CallId& /*id*/, int /*line*/) override {}
  void decide(Verdict /*verdict*/) override { ++decided; }
  void lost(Verdict /*verdict*/) override {}
  void all_left() override {}
};

ControlMessage told(std::uint16_t slot) {
  ControlMessage m{.type = ControlType::kCall};
  m.call = CallId{0, slot, 0, 1}.pack();
  m.turn = 1;
  m.digest = 7;
  return m;
}

// How often everybody was asked: at once, in the next heartbeat, and when told of an old call again.
runtime::Task<void> tell_of_ten(runtime::Runtime& rt, int world, std::vector<int>& asked) {
  Port port;
  const MembershipOptions options;
  Coordinator coordinator(rt, world, options, port);
  for (std::uint16_t slot = 0; slot < 10; ++slot) coordinator.call_told(5, told(slot));
  asked.push_back(port.asked);
  co_await rt.sleep_for(options.heartbeat);
  coordinator.look();
  asked.push_back(port.asked);
  coordinator.call_told(6, told(0));
  asked.push_back(port.asked);
  EXPECT_EQ(port.decided, 0);
}

std::vector<int> asked_in(int world) {
  runtime::WorldSpec spec;
  spec.topology = cost::Topology::single_switch(1, {}, {});
  const auto cluster = runtime::make_virtual_world(spec);
  runtime::Runtime& rt = cluster->add_runtime(0, "coordinator");
  std::vector<int> asked;
  cluster->start(rt, tell_of_ten(rt, world, asked));
  EXPECT_TRUE(cluster->run(kForever).finished);
  return asked;
}

TEST(Coordinator, ComparesCallsOfFewRanksAtOnceAndThoseOfManyOneAfterTheOther) {
  EXPECT_EQ(asked_in(16), (std::vector<int>{10, 10, 10}));
  EXPECT_EQ(asked_in(1024), (std::vector<int>{4, 8, 8}));
}

}  // namespace
}  // namespace trireme::net
