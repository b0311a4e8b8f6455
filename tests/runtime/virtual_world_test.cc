// The loop of a virtual world: order of events, timers, tasks, compute, determinism.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "trireme/base/rng.h"
#include "trireme/runtime/network.h"
#include "trireme/runtime/sync.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::runtime {
namespace {

WorldSpec small_world(int num_machines = 2, int cores = 2) {
  WorldSpec spec;
  spec.topology = cost::Topology::single_switch(num_machines, {.cores = cores}, {});
  return spec;
}

Task<void> nothing() { co_return; }

TEST(VirtualWorld, RunsEventsInOrderOfTimeThenOfTheCall) {
  auto world = make_virtual_world(small_world());
  Runtime& a = world->add_runtime(0, "a");
  Runtime& b = world->add_runtime(1, "b");
  std::vector<std::string> seen;
  a.call_at(20, [&] { seen.push_back("a20"); });
  b.call_at(10, [&] {
    seen.push_back("b10");
    b.post([&] { seen.push_back("b10 posted"); });
    b.call_at(5, [&] { seen.push_back("b late"); });
  });
  a.call_at(10, [&] { seen.push_back("a10"); });
  b.call_at(20, [&] { seen.push_back("b20"); });
  a.post([&] { seen.push_back("a now"); });
  EXPECT_TRUE(seen.empty()) << "nothing runs inside the call that caused it";
  const WorldReport report = world->run(kSecond);
  EXPECT_EQ(seen, (std::vector<std::string>{"a now", "b10", "a10", "b10 posted", "b late", "a20", "b20"}));
  EXPECT_EQ(report.end_time, 20);
  EXPECT_EQ(report.num_events, 7U);
}

TEST(VirtualWorld, CancelledTimersDoNotRunAndDoNotMoveTheClock) {
  auto world = make_virtual_world(small_world());
  Runtime& rt = world->add_runtime(0, "a");
  int ran = 0;
  std::vector<TimerId> timers;
  for (int i = 0; i < 1000; ++i) timers.push_back(rt.call_at(kSecond + i, [&] { ++ran; }));
  rt.call_at(7, [&] { ++ran; });
  for (const TimerId id : timers) rt.cancel_timer(id);
  rt.cancel_timer(timers[0]);
  rt.cancel_timer(0);
  const WorldReport report = world->run(kForever);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(report.end_time, 7);
}

TEST(VirtualWorld, AStaleTimerIdDoesNotCancelTheNextTimerInItsPlace) {
  auto world = make_virtual_world(small_world());
  Runtime& rt = world->add_runtime(0, "a");
  bool ran = false;
  const TimerId old = rt.call_at(1, [] {});
  rt.call_at(2, [&] {
    rt.call_at(3, [&] { ran = true; });
    rt.cancel_timer(old);
  });
  world->run(kForever);
  EXPECT_TRUE(ran);
}

Task<void> count_ticks(Runtime& rt, int& ticks) {
  for (;;) {
    co_await rt.sleep_for(10);
    ++ticks;
  }
}

TEST(VirtualWorld, ARunThatMetItsLimitGoesOnWhereItWas) {
  auto world = make_virtual_world(small_world());
  Runtime& rt = world->add_runtime(0, "ticker");
  int ticks = 0;
  world->start(rt, count_ticks(rt, ticks));
  rt.log("ticking");
  WorldReport report = world->run(95);
  EXPECT_FALSE(report.finished);
  EXPECT_EQ(report.end_time, 95);
  EXPECT_EQ(ticks, 9);
  EXPECT_EQ(report.stuck, "ticker: ticking");
  report = world->run(200);
  EXPECT_EQ(ticks, 20);
}

Task<void> wait_forever(Runtime& rt) {
  OneShot<bool> never(rt);
  co_await never.wait_until(kForever);
}

TEST(VirtualWorld, NamesWhoeverStillWaitsWhenNothingIsLeftToDo) {
  auto world = make_virtual_world(small_world());
  Runtime& a = world->add_runtime(0, "a");
  Runtime& b = world->add_runtime(1, "b");
  world->start(a, nothing());
  world->start(b, wait_forever(b));
  const WorldReport report = world->run(kForever);
  EXPECT_FALSE(report.finished);
  EXPECT_EQ(report.end_time, 0);
  EXPECT_EQ(report.stuck, "b");
}

TEST(VirtualWorld, ASleepForeverIsNeverOver) {
  auto world = make_virtual_world(small_world());
  Runtime& rt = world->add_runtime(0, "sleeper");
  world->start(rt, [](Runtime& r) -> Task<void> { co_await r.sleep_until(kForever); }(rt));
  rt.call_at(30, [] {});
  const WorldReport report = world->run(kForever);
  EXPECT_FALSE(report.finished);
  EXPECT_EQ(report.end_time, 30);
}

TEST(VirtualWorld, ManyTimersAndCancelsKeepTheirOrder) {
  auto world = make_virtual_world(small_world());
  Runtime& rt = world->add_runtime(0, "a");
  Philox random(5);
  std::vector<std::pair<TimeNs, int>> expected, seen;
  std::vector<TimerId> timers;
  for (int i = 0; i < 3000; ++i) {
    const TimeNs when = 1 + random.next_below(500);
    timers.push_back(rt.call_at(when, [&seen, &rt, i] { seen.emplace_back(rt.now(), i); }));
    expected.emplace_back(when, i);
  }
  std::vector<std::pair<TimeNs, int>> kept;
  for (int i = 0; i < 3000; ++i) {
    if (random.next_below(4) == 0)
      kept.push_back(expected[static_cast<std::size_t>(i)]);
    else
      rt.cancel_timer(timers[static_cast<std::size_t>(i)]);
  }
  std::sort(kept.begin(), kept.end());
  world->run(kForever);
  EXPECT_EQ(seen, kept);
}

TEST(VirtualWorld, StopsWhenTheLastStartedTaskEnds) {
  auto world = make_virtual_world(small_world());
  Runtime& rt = world->add_runtime(0, "a");
  int ticks = 0;
  rt.spawn(count_ticks(rt, ticks));
  world->start(rt, [](Runtime& r) -> Task<void> { co_await r.sleep_until(100); }(rt));
  const WorldReport report = world->run(kForever);
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(report.end_time, 100);
  EXPECT_TRUE(report.stuck.empty());
}

// One op of `flops` alone takes overhead + flops / (rate * width).
struct Op {
  TimeNs start = -1, end = -1;
};

Task<void> compute_one(Runtime& rt, double flops, int width, Op& op) {
  co_await rt.compute(
      {.flops = flops}, [&op, &rt](ComputeContext&) { op.start = rt.now(); }, width);
  op.end = rt.now();
}

TEST(VirtualWorld, ComputeSharesTheCoresOfAMachineInOrderOfArrival) {
  WorldSpec spec = small_world(2, 4);
  for (auto& m : spec.topology.machines) {
    m.flops_per_second_per_core = 1e9;
    m.op_overhead_ns = 5;
  }
  auto world = make_virtual_world(spec);
  Runtime& a = world->add_runtime(0, "a");
  Runtime& b = world->add_runtime(0, "b");
  Runtime& c = world->add_runtime(1, "c");
  std::vector<Op> ops(6);
  world->start(a, compute_one(a, 3000, 3, ops[0]));   // cores 0-2 for 1005
  world->start(b, compute_one(b, 2000, 1, ops[1]));   // core 3 for 2005
  world->start(a, compute_one(a, 4000, 2, ops[2]));   // from 1005 for 2005
  world->start(b, compute_one(b, 100, 1, ops[3]));    // from 1005
  world->start(b, compute_one(b, 8000, 16, ops[4]));  // all four cores, after everything
  world->start(c, compute_one(c, 1000, 1, ops[5]));   // another machine
  EXPECT_TRUE(world->run(kForever).finished);
  const auto check = [&](int i, TimeNs start, TimeNs end) {
    EXPECT_EQ(ops[static_cast<std::size_t>(i)].start, start) << i;
    EXPECT_EQ(ops[static_cast<std::size_t>(i)].end, end) << i;
  };
  check(0, 0, 1005);
  check(1, 0, 2005);
  check(2, 1005, 3010);
  check(3, 1005, 1110);
  check(4, 3010, 5015);
  check(5, 0, 1005);
}

TEST(VirtualWorld, AKilledRankFreesItsCoresAndAPausedOneBlocksNobody) {
  WorldSpec spec = small_world(1, 1);
  spec.topology.machines[0].flops_per_second_per_core = 1e9;
  spec.topology.machines[0].op_overhead_ns = 0;
  FaultSpec kill, pause;
  kill.runtime = 0;
  kill.at = 300;
  pause.kind = FaultSpec::Kind::kPause;
  pause.runtime = 1;
  pause.at = 100;
  pause.duration = 5000;
  spec.faults = {kill, pause};
  auto world = make_virtual_world(spec);
  Runtime& killed = world->add_runtime(0, "killed");
  Runtime& paused = world->add_runtime(0, "paused");
  Runtime& other = world->add_runtime(0, "other");
  std::vector<Op> ops(4);
  world->start(killed, compute_one(killed, 1000, 1, ops[0]));
  world->start(paused, compute_one(paused, 1000, 1, ops[1]));
  world->start(other, compute_one(other, 1000, 1, ops[2]));
  world->start(killed, compute_one(killed, 1000, 1, ops[3]));
  EXPECT_TRUE(world->run(kForever).finished);
  EXPECT_EQ(ops[0].end, -1);
  EXPECT_EQ(ops[2].start, 300);
  EXPECT_EQ(ops[2].end, 1300);
  EXPECT_EQ(ops[1].start, 5100);
  EXPECT_EQ(ops[1].end, 6100);
  EXPECT_EQ(ops[3].start, -1);
}

TEST(VirtualWorld, ComputeGivesFixedSlicesAndCountsAsActivity) {
  auto world = make_virtual_world(small_world());
  Runtime& rt = world->add_runtime(0, "a");
  std::vector<std::string> slices;
  ComputeRequest request;
  request.cost = {.flops = 1e6};
  request.width = 3;
  request.fn = [&](ComputeContext& context) {
    EXPECT_EQ(context.width(), 3);
    context.parallel_for(10, [&](std::int64_t b, std::int64_t e, int i) {
      slices.push_back(fmt::format("{}:{}-{}", i, b, e));
    });
    context.parallel_for(1, [&](std::int64_t b, std::int64_t e, int i) {
      slices.push_back(fmt::format("{}:{}-{}", i, b, e));
    });
  };
  bool done = false;
  request.done = [&] {
    done = true;
    EXPECT_FALSE(rt.activity().busy());
  };
  rt.start_compute(std::move(request));
  EXPECT_TRUE(slices.empty());
  EXPECT_EQ(rt.activity().compute_in_flight, 1);
  world->run(kForever);
  EXPECT_TRUE(done);
  EXPECT_EQ(slices, (std::vector<std::string>{"0:0-3", "1:3-6", "2:6-10", "2:0-1"}));
}

TEST(VirtualWorld, APhantomWorldChargesTheTimeAndSkipsTheFunction) {
  WorldSpec spec = small_world();
  spec.phantom = true;
  auto world = make_virtual_world(spec);
  Runtime& rt = world->add_runtime(0, "a");
  Op op;
  world->start(rt, compute_one(rt, 50e9, 1, op));
  world->run(kForever);
  EXPECT_EQ(op.start, -1);
  EXPECT_EQ(op.end, cost::compute_time({.flops = 50e9}, spec.topology.machines[0], 1));
  EXPECT_TRUE(rt.is_phantom());
}

// Two ranks play ping-pong, with some compute and logging in between.
Task<void> chatter(Runtime& rt, int rank, int rounds) {
  auto box = rt.network().open_endpoint(rank);
  int got = 0;
  OneShot<bool> all(rt);
  (*box)->set_handlers(
      [&](int from, Packet packet) {
        if (++got == rounds) return all.set(true);
        rt.log(fmt::format("{} from {}", packet.bytes, from));
        (*box)->send(from, {.header = {}, .payload = nullptr, .bytes = packet.bytes + 1});
      },
      [](int) {});
  if (rank == 0) (*box)->send(1, {.header = {}, .payload = nullptr, .bytes = 100});
  co_await rt.compute({.flops = 1e6}, {});
  co_await all.wait_until(rt.now() + kSecond);
}

std::uint64_t chatter_hash(std::uint64_t seed, double jitter) {
  WorldSpec spec = small_world();
  spec.seed = seed;
  spec.latency_jitter = jitter;
  auto world = make_virtual_world(spec);
  for (int i = 0; i < 2; ++i) {
    Runtime& rt = world->add_runtime(i, fmt::format("rank {}", i));
    world->start(rt, chatter(rt, i, 20));
  }
  return world->run(10 * kSecond).trace_hash;
}

TEST(VirtualWorld, TheSameSeedGivesTheSameTraceAndJitterMakesSeedsDiffer) {
  EXPECT_EQ(chatter_hash(1, 0.5), chatter_hash(1, 0.5));
  EXPECT_NE(chatter_hash(1, 0.5), chatter_hash(2, 0.5));
  EXPECT_EQ(chatter_hash(1, 0), chatter_hash(2, 0)) << "nothing is random without jitter";
}

TEST(VirtualWorld, ATraceHashSeesLogLinesTimesAndHeaders) {
  const auto hash_of = [](const std::function<void(Runtime&)>& act) {
    auto world = make_virtual_world(small_world());
    Runtime& rt = world->add_runtime(0, "a");
    act(rt);
    return world->run(kForever).trace_hash;
  };
  const std::uint64_t base = hash_of([](Runtime& rt) { rt.log("x"); });
  EXPECT_NE(base, hash_of([](Runtime& rt) { rt.log("y"); }));
  EXPECT_NE(hash_of([](Runtime& rt) { rt.call_at(1, [] {}); }),
            hash_of([](Runtime& rt) { rt.call_at(2, [] {}); }));
  const auto send = [](std::uint64_t word) {
    return [word](Runtime& rt) {
      auto box = rt.network().open_endpoint(0);
      (*box)->send(0, {.header = {word}, .payload = nullptr, .bytes = 0});
    };
  };
  EXPECT_NE(hash_of(send(1)), hash_of(send(2)));
}

TEST(VirtualWorld, CalendarTimeIsAFixedDatePlusTheClock) {
  auto world = make_virtual_world(small_world());
  Runtime& rt = world->add_runtime(0, "a");
  std::int64_t later = 0;
  rt.call_at(5, [&] { later = rt.unix_time_ns(); });
  const std::int64_t start = rt.unix_time_ns();
  world->run(kForever);
  EXPECT_EQ(start, 1'577'836'800LL * kSecond);
  EXPECT_EQ(later, start + 5);
}

}  // namespace
}  // namespace trireme::runtime
