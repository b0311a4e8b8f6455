// Copies that travel ahead of their use.
#include "trireme/exec/device_ahead.h"
#include "tests/exec_cuda/on_gpu.h"

namespace trireme::exec {
namespace {

using graph::bits;

class Ahead : public OnGpu {};

Tensor four(float x) { return tensor({x, x, x, x}); }

// y = (x + 1) * (x + 1)
Graph square() {
  Graph graph;
  Builder b(graph);
  const Value x = b.add(b.input("x", kF32, {4}), b.fill(1, kF32, {4}));
  b.output("y", b.mul(x, x));
  EXPECT_TRUE(b.status().ok());
  return graph;
}

void fill(const Tensor& t, float x) { std::fill_n(t.data<float>(), 4, x); }

// Two slots in turn, each sent while the other one is used: direct, captured and replayed runs.
TEST_F(Ahead, ARunReadsWhatWasSentLast) {
  const auto plan = compiled(square());
  on_real([&](Runtime& rt) -> Task<void> {
    DeviceAhead ahead(device());
    const Tensor slots[] = {*ahead.allocate({kF32, {4}}), *ahead.allocate({kF32, {4}})};
    EXPECT_EQ(ahead.device_bytes(), 32U);
    auto e = *make_execution(rt, plan, {.ahead = &ahead});
    fill(slots[0], 0);
    EXPECT_TRUE(ahead.send(slots[0]).ok());
    for (int step = 0; step < 8; ++step) {
      const auto next = static_cast<float>(step + 1);
      EXPECT_TRUE(ahead.settle(slots[(step + 1) % 2]).ok());
      fill(slots[(step + 1) % 2], next);
      EXPECT_TRUE(ahead.send(slots[(step + 1) % 2]).ok());
      EXPECT_TRUE(e->feed("x", slots[step % 2]).ok());
      EXPECT_TRUE((co_await e->run()).ok());
      EXPECT_EQ(bits(*e->fetch("y")), bits(four(next * next))) << step;
    }
  });
}

TEST_F(Ahead, WhatWasNotSentIsCopiedByTheRun) {
  const auto plan = compiled(square());
  on_real([&](Runtime& rt) -> Task<void> {
    DeviceAhead ahead(device());
    const Tensor never = *ahead.allocate({kF32, {4}}), freed = *ahead.allocate({kF32, {4}});
    fill(never, 2), fill(freed, 3);
    EXPECT_TRUE(ahead.send(freed).ok());
    ahead.free(freed);
    auto e = *make_execution(rt, plan, {.ahead = &ahead});
    for (const auto& [x, y] : {std::pair{never, 9.0F}, std::pair{freed, 16.0F}, std::pair{four(4), 25.0F}}) {
      EXPECT_TRUE(e->feed("x", x).ok());
      EXPECT_TRUE((co_await e->run()).ok());
      EXPECT_EQ(bits(*e->fetch("y")), bits(four(y)));
    }
  });
}

}  // namespace
}  // namespace trireme::exec
