// Receives just in time.
#include <gtest/gtest.h>

#include "tests/graph/run_pass.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

constexpr std::int64_t kSize = 256;
const cost::MachineModel kMachine{
    .flops_per_second_per_core = 1e9, .bytes_per_second = 1e12, .op_overhead_ns = 0};

Value receive(Builder& b, std::int64_t peer) {
  return b.add_node(op::kRecv, {}, {{"peer", peer}, {"shape", std::vector<std::int64_t>{kSize, kSize}}});
}

// x -> four products -> y; a tensor received is added at the end.
Graph chain_with_late_use() {
  Graph g;
  Builder b(g);
  const Value late = receive(b, 1);
  Value x = b.input("x", DType::kF32, {kSize, kSize});
  for (int i = 0; i < 4; ++i) x = b.matmul(x, x);
  b.output("y", b.add(x, late));
  EXPECT_TRUE(b.status().ok()) << b.status().to_string();
  return g;
}

std::int32_t find(const Graph& g, const OpDef& def, int nth = 0) {
  for (std::int32_t i = 0; i < g.size(); ++i) {
    if (g.node(i).def == &def && nth-- == 0) return i;
  }
  return -1;
}

TEST(ScheduleReceives, ARecvWaitsForTheNodeThatEndsJustBeforeItMustStart) {
  // A product takes 33.5 ms on this machine.
  const cost::LinkModel fast{.latency_ns = 0, .bytes_per_second = 1e12}, slow{.latency_ns = 50 * kMilli};
  const auto just = run_pass("schedule_receives", chain_with_late_use(), {.machine = kMachine, .link = fast});
  ASSERT_TRUE(just.ok()) << just.status().to_string();
  EXPECT_TRUE(verify(*just).ok());
  const std::vector<std::int32_t> after_last_but_one{find(*just, op::kMatmul, 2)};
  EXPECT_EQ(just->node(find(*just, op::kRecv)).control, after_last_but_one) << just->to_text();
  const auto earlier =
      run_pass("schedule_receives", chain_with_late_use(), {.machine = kMachine, .link = slow});
  const std::vector<std::int32_t> after_second{find(*earlier, op::kMatmul, 1)};
  EXPECT_EQ(earlier->node(find(*earlier, op::kRecv)).control, after_second) << earlier->to_text();
}

TEST(ScheduleReceives, ARecvOnTheCriticalPathStartsAtOnce) {
  Graph g;
  Builder b(g);
  const Value x = receive(b, 1);
  b.input("unused", DType::kF32, {1});
  b.output("y", b.matmul(b.matmul(x, x), x));
  const auto scheduled = run_pass("schedule_receives", g, {.machine = kMachine, .link = {}});
  ASSERT_TRUE(scheduled.ok());
  EXPECT_TRUE(scheduled->node(find(*scheduled, op::kRecv)).control.empty());
}

// What waits for a host op could wait for this very recv, by way of other ranks.
TEST(ScheduleReceives, NothingThatWaitsForAnotherRankDelaysARecv) {
  Graph g;
  Builder b(g);
  const Value first = receive(b, 1), second = receive(b, 2);
  const Value x = b.input("x", DType::kF32, {kSize, kSize});
  Value y = b.matmul(first, x);
  for (int i = 0; i < 4; ++i) y = b.matmul(y, x);
  b.output("y", b.add(y, second));
  const auto scheduled = run_pass("schedule_receives", g, {.machine = kMachine, .link = {}});
  ASSERT_TRUE(scheduled.ok());
  for (const int nth : {0, 1}) EXPECT_TRUE(scheduled->node(find(*scheduled, op::kRecv, nth)).control.empty());
}

// Most memory is needed at the beginning: what is received need not be there yet.
TEST(ScheduleReceives, MemoryIsSavedAndOutputsKeepTheirNames) {
  Graph g;
  Builder b(g);
  const Value late = receive(b, 1);
  const Value x = b.input("x", DType::kF32, {kSize, kSize}),
              wide = b.input("wide", DType::kF32, {kSize, 8 * kSize});
  Value y = b.matmul(b.relu(b.matmul(x, wide)), wide, false, true);
  for (int i = 0; i < 4; ++i) y = b.matmul(y, y);
  b.output("y", b.add(y, late));
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  const auto scheduled = run_pass("schedule_receives", g, {.machine = kMachine, .link = {}});
  ASSERT_TRUE(scheduled.ok());
  EXPECT_EQ(scheduled->outputs()[0].first, "y");
  EXPECT_LT(plan_memory(*scheduled, {})->plan.arena_bytes, plan_memory(g, {})->plan.arena_bytes);
  const auto again = run_pass("schedule_receives", *scheduled, {.machine = kMachine, .link = {}});
  EXPECT_EQ(again->to_text(), scheduled->to_text());
}

}  // namespace
}  // namespace trireme::graph
