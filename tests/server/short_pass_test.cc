// Passes over little memory are made on the loop, those over much on the pool.
#include <gtest/gtest.h>

#include "trireme/runtime/virtual/world.h"
#include "trireme/server/stored_slice.h"

namespace trireme::server {
namespace {

struct Seen {
  bool ran = false;
  TimeNs took = 0;
};

runtime::Task<void> pass(runtime::Runtime& rt, double bytes, Seen* seen) {
  const TimeNs before = rt.now();
  runtime::ComputeFn fn = [seen](runtime::ComputeContext& context) {
    context.parallel_for(3, [&](std::int64_t begin, std::int64_t end, int) { seen->ran = end > begin; });
  };
  co_await short_pass(rt, pass_cost(1, bytes), std::move(fn), "pass");
  seen->took = rt.now() - before;
}

Seen run(double bytes, bool phantom) {
  runtime::WorldSpec spec;
  spec.topology = cost::Topology::single_switch(1, cost::MachineModel{}, cost::LinkModel{});
  spec.phantom = phantom;
  const auto world = runtime::make_virtual_world(spec);
  runtime::Runtime& rt = world->add_runtime(0, "server");
  Seen seen;
  world->start(rt, pass(rt, bytes, &seen));
  world->run(kSecond);
  return seen;
}

TEST(ShortPass, LittleIsDoneHereAndNow) {
  const Seen seen = run(3.0 * (64 << 10), false);
  EXPECT_TRUE(seen.ran);
  EXPECT_EQ(seen.took, 0);
}

TEST(ShortPass, MuchIsDoneOnThePool) {
  const Seen seen = run(3.0 * (1 << 20), false);
  EXPECT_TRUE(seen.ran);
  EXPECT_GT(seen.took, 0);
}

TEST(ShortPass, PhantomsTouchNoMemory) {
  EXPECT_FALSE(run(3.0 * (64 << 10), true).ran);
  EXPECT_FALSE(run(3.0 * (1 << 20), true).ran);
}

}  // namespace
}  // namespace trireme::server
