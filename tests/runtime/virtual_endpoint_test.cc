// Endpoints of a virtual world against closed-form times of its links, and what faults do to them.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/runtime/virtual_ranks.h"
#include "trireme/runtime/sync.h"
#include "trireme/runtime/urgent.h"

namespace trireme::runtime {
namespace {

using testing::kClosedWord;
using testing::make_ranks;
using testing::phantom;
using testing::Rank;
using testing::Seen;

constexpr TimeNs kLatency = 1000, kOverhead = 20, kLocalLatency = 100, kLocalOverhead = 7;
constexpr int kLocalSpeed = 4;

// Links of one byte per nanosecond: times can be read off. The local link takes 4.
WorldSpec byte_per_ns(int num_machines) {
  WorldSpec spec;
  spec.topology = cost::Topology::single_switch(
      num_machines, {}, {.latency_ns = kLatency, .bytes_per_second = 1e9, .message_overhead_ns = kOverhead});
  spec.topology.local = {.latency_ns = kLocalLatency,
                         .bytes_per_second = kLocalSpeed * 1e9,
                         .message_overhead_ns = kLocalOverhead};
  return spec;
}

TEST(VirtualEndpoint, OneMessageTakesOverheadLatencyAndItsBytes) {
  auto world = make_virtual_world(byte_per_ns(2));
  auto ranks = make_ranks(*world, {0, 1});
  TimeNs sent_at = -1;
  ranks[0]->box->send(1, phantom(500, 1), [&] { sent_at = ranks[0]->rt.now(); });
  const WorldReport report = world->run(kForever);
  EXPECT_EQ(sent_at, kOverhead + 500 + 48);
  EXPECT_EQ(ranks[1]->seen, (std::vector<Seen>{{kOverhead + kLatency + 500 + 48, 0, 1}}));
  EXPECT_EQ(report.num_messages, 1U);
  EXPECT_EQ(report.num_bytes, 548U);
}

TEST(VirtualEndpoint, TwoMessagesOfOneMachineShareItsUpLinkInOrder) {
  auto world = make_virtual_world(byte_per_ns(3));
  auto ranks = make_ranks(*world, {0, 1, 2, 0});
  ranks[0]->box->send(1, phantom(952, 1));
  ranks[3]->box->send(2, phantom(452, 2));  // another rank of the same machine
  world->run(kForever);
  const TimeNs first_end = kOverhead + 1000, second_end = first_end + kOverhead + 500;
  EXPECT_EQ(ranks[1]->seen, (std::vector<Seen>{{first_end + kLatency, 0, 1}}));
  EXPECT_EQ(ranks[2]->seen, (std::vector<Seen>{{second_end + kLatency, 3, 2}}));
}

TEST(VirtualEndpoint, UrgentPacketsPassBetweenThePacketsOfLargeOnesAndKeepTheirOrder) {
  for (const double jitter : {0.0, 0.5}) {
    WorldSpec spec = byte_per_ns(2);
    spec.latency_jitter = jitter;
    auto world = make_virtual_world(spec);
    auto ranks = make_ranks(*world, {0, 1});
    ranks[0]->box->send(1, phantom(1'000'000, 1));
    for (const std::uint64_t word : {2, 3, 4}) {
      Packet urgent = phantom(52, word);
      mark_urgent(urgent);
      ranks[0]->box->send(1, std::move(urgent));
    }
    ranks[0]->box->send(1, phantom(52, 5));
    world->run(kForever);
    std::vector<std::uint64_t> words;
    for (const Seen& s : ranks[1]->seen) words.push_back(s.word);
    EXPECT_EQ(words, (std::vector<std::uint64_t>{2, 3, 4, 1, 5})) << jitter;
    EXPECT_LT(ranks[1]->seen[2].at, 6 * 1500 + 2 * kLatency) << "a packet on every link, not a message";
    EXPECT_GT(ranks[1]->seen[4].at, 1'000'000 + 300) << "what they take is taken from the others";
  }
}

TEST(VirtualEndpoint, IncastQueuesAtTheDownLinkInOrderOfArrival) {
  auto world = make_virtual_world(byte_per_ns(4));
  auto ranks = make_ranks(*world, {0, 1, 2, 3});
  for (int i = 1; i < 4; ++i) ranks[static_cast<std::size_t>(i)]->box->send(0, phantom(952, 7));
  world->run(kForever);
  const TimeNs first_byte = kOverhead + kLatency;
  EXPECT_EQ(
      ranks[0]->seen,
      (std::vector<Seen>{{first_byte + 1000, 1, 7}, {first_byte + 2000, 2, 7}, {first_byte + 3000, 3, 7}}));
}

TEST(VirtualEndpoint, ALongUpQueueDoesNotReserveTheReceiversDownLink) {
  auto world = make_virtual_world(byte_per_ns(3));
  auto ranks = make_ranks(*world, {0, 1, 2});
  ranks[0]->box->send(1, phantom(9952, 1));  // keeps the up link of machine 0 until 10020
  ranks[0]->box->send(2, phantom(952, 2));
  ranks[1]->box->send(2, phantom(952, 3));
  world->run(kForever);
  EXPECT_EQ(ranks[2]->seen, (std::vector<Seen>{{kOverhead + kLatency + 1000, 1, 3},
                                               {10020 + kOverhead + kLatency + 1000, 0, 2}}));
}

TEST(VirtualEndpoint, ASlowDownLinkSetsThePaceOfCutThrough) {
  WorldSpec spec = byte_per_ns(2);
  spec.topology.down.bytes_per_second = 0.5e9;
  auto world = make_virtual_world(spec);
  auto ranks = make_ranks(*world, {0, 1});
  ranks[0]->box->send(1, phantom(952, 1));
  world->run(kForever);
  EXPECT_EQ(ranks[1]->seen, (std::vector<Seen>{{kOverhead + kLatency + 2000, 0, 1}}));
}

TEST(VirtualEndpoint, RanksOfOneMachineUseItsLocalLink) {
  auto world = make_virtual_world(byte_per_ns(2));
  auto ranks = make_ranks(*world, {0, 0, 1});
  ranks[0]->box->send(2, phantom(99952, 1));  // the up link is busy; that is another link
  ranks[0]->box->send(1, phantom(3952, 2));
  ranks[1]->box->send(1, phantom(3952, 3));
  world->run(kForever);
  const TimeNs first_end = kLocalOverhead + 4000 / kLocalSpeed, second_end = 2 * first_end;
  EXPECT_EQ(ranks[1]->seen,
            (std::vector<Seen>{{first_end + kLocalLatency, 0, 2}, {second_end + kLocalLatency, 1, 3}}));
}

TEST(VirtualEndpoint, JitterKeepsTheOrderBetweenTwoEndpointes) {
  WorldSpec spec = byte_per_ns(3);
  spec.latency_jitter = 5;
  spec.seed = 11;
  auto world = make_virtual_world(spec);
  auto ranks = make_ranks(*world, {0, 1, 2, 2});
  for (std::uint64_t i = 0; i < 200; ++i) {
    ranks[0]->box->send(2, phantom(0, i));
    ranks[1]->box->send(2, phantom(0, i));
    ranks[3]->box->send(2, phantom(0, i));
  }
  world->run(kForever);
  std::map<int, std::uint64_t> next;
  for (const Seen& s : ranks[2]->seen) EXPECT_EQ(s.word, next[s.from]++) << "from " << s.from;
  EXPECT_EQ(ranks[2]->seen.size(), 600U);
}

TEST(VirtualEndpoint, PacketsWaitForAnEndpointThatIsNotOpenYetAndForItsHandlers) {
  auto world = make_virtual_world(byte_per_ns(2));
  auto ranks = make_ranks(*world, std::vector<int>{0});
  ranks[0]->box->send(1, phantom(2, 1));
  ranks[0]->box->send(1, phantom(2, 2));
  Runtime& late = world->add_runtime(1, "late");
  std::unique_ptr<FabricEndpoint> box;
  std::vector<Seen> seen;
  late.call_at(5000, [&] { box = std::move(late.network().open_endpoint(1)).value(); });
  late.call_at(9000, [&] {
    box->set_handlers(
        [&](int from, Packet p) {
          seen.push_back({late.now(), from, p.header[0]});
        },
        [](int) {});
  });
  world->run(kForever);
  EXPECT_EQ(seen, (std::vector<Seen>{{9000, 0, 1}, {9000, 0, 2}}));
}

TEST(VirtualEndpoint, AnIdIsOpenOnceAtATimeAndPacketsOfItsPastAreDropped) {
  auto world = make_virtual_world(byte_per_ns(2));
  auto ranks = make_ranks(*world, {0, 1});
  const auto again = ranks[1]->rt.network().open_endpoint(1);
  EXPECT_EQ(again.status().code(), Code::kExists);
  ranks[0]->box->send(1, phantom(0, 1));
  ranks[1]->box.reset();
  Rank reborn(*world, 1, 1);
  ranks[0]->box->send(1, phantom(0, 2));
  world->run(kForever);
  ASSERT_EQ(reborn.seen.size(), 1U);
  EXPECT_EQ(reborn.seen[0].word, 2U);
  EXPECT_TRUE(ranks[1]->seen.empty());
}

TEST(VirtualEndpoint, ClosingIsHeardAtLinkLatencyOrAfterThePacketsUnderWay) {
  auto world = make_virtual_world(byte_per_ns(3));
  auto ranks = make_ranks(*world, {0, 0, 1, 2});
  ranks[0]->box->send(3, phantom(4952, 1));
  ranks[0]->box->send(3, phantom(4952, 2));
  ranks[0]->box.reset();
  world->run(kForever);
  EXPECT_EQ(ranks[1]->seen, (std::vector<Seen>{{kLocalLatency, 0, kClosedWord}}));
  EXPECT_EQ(ranks[2]->seen, (std::vector<Seen>{{kLatency, 0, kClosedWord}}));
  const TimeNs one = kOverhead + 5000;
  EXPECT_EQ(ranks[3]->seen,
            (std::vector<Seen>{
                {one + kLatency, 0, 1}, {2 * one + kLatency, 0, 2}, {2 * one + kLatency, 0, kClosedWord}}));
}

FaultSpec timed(FaultSpec::Kind kind, int runtime, TimeNs at, TimeNs duration = kForever) {
  FaultSpec fault;
  fault.kind = kind;
  fault.runtime = runtime;
  fault.at = at;
  fault.duration = duration;
  return fault;
}

TEST(VirtualEndpoint, AKilledRankIsSilentAndItsPeersHearItAtLinkLatency) {
  WorldSpec spec = byte_per_ns(2);
  spec.faults = {timed(FaultSpec::Kind::kKill, 1, 500)};
  spec.record_messages = true;
  auto world = make_virtual_world(spec);
  auto ranks = make_ranks(*world, {0, 1});
  bool dead_timer_ran = false;
  ranks[1]->rt.call_at(600, [&] { dead_timer_ran = true; });
  ranks[0]->box->send(1, phantom(0, 1));  // arrives at a dead rank
  world->run(kForever);
  EXPECT_FALSE(dead_timer_ran);
  EXPECT_TRUE(world->is_dead(ranks[1]->rt));
  EXPECT_FALSE(world->is_dead(ranks[0]->rt));
  EXPECT_EQ(ranks[0]->seen, (std::vector<Seen>{{500 + kLatency, 1, kClosedWord}}));
  EXPECT_TRUE(ranks[1]->seen.empty());
  ASSERT_EQ(world->messages().size(), 1U);
  EXPECT_EQ(world->messages()[0].delivered, -1);
}

TEST(VirtualEndpoint, NothingARankDoesAfterItsKillAtAFaultPointIsSeen) {
  WorldSpec spec = byte_per_ns(2);
  FaultSpec fault;
  fault.runtime = 0;
  fault.site = "collective";
  fault.index = 3;
  spec.faults = {fault};
  auto world = make_virtual_world(spec);
  auto ranks = make_ranks(*world, {0, 1});
  Runtime& rt = ranks[0]->rt;
  int last = -1;
  rt.call_at(100, [&] {
    for (std::uint64_t i = 0; i < 10; ++i) {
      EXPECT_EQ(rt.fault_point("step", i), FaultAction::kNone);
      EXPECT_EQ(rt.fault_point("collective", i), FaultAction::kNone);
      ranks[0]->box->send(1, phantom(0, i));
      rt.log("after");
      rt.post([&last, i] { last = static_cast<int>(i); });
    }
  });
  world->run(kForever);
  ASSERT_EQ(ranks[1]->seen.size(), 4U);
  EXPECT_EQ(ranks[1]->seen[2].word, 2U);
  EXPECT_EQ(ranks[1]->seen[3].word, kClosedWord);
  EXPECT_EQ(world->log_of(rt).size(), 3U);
  EXPECT_EQ(last, -1) << "posts made before the kill would have run after it";
}

TEST(VirtualEndpoint, APausedRankHoldsItsEventsInOrderAndLosesNothing) {
  WorldSpec spec = byte_per_ns(2);
  spec.faults = {timed(FaultSpec::Kind::kPause, 1, 500, 9500)};
  auto world = make_virtual_world(spec);
  auto ranks = make_ranks(*world, {0, 1});
  std::vector<TimeNs> ticks;
  for (const TimeNs t : {400, 600, 700, 20000})
    ranks[1]->rt.call_at(t, [&] { ticks.push_back(ranks[1]->rt.now()); });
  for (std::uint64_t i = 0; i < 5; ++i) ranks[0]->box->send(1, phantom(0, i));
  ranks[0]->rt.call_at(8000, [&] { ticks.push_back(-8000); });
  world->run(kForever);
  EXPECT_EQ(ticks, (std::vector<TimeNs>{400, -8000, 10000, 10000, 20000}));
  ASSERT_EQ(ranks[1]->seen.size(), 5U);
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(ranks[1]->seen[i], (Seen{10000, 0, i}));
  EXPECT_TRUE(ranks[0]->seen.empty()) << "a pause closes nothing";
}

TEST(VirtualEndpoint, CallsAfterAPauseAtAFaultPointTakeEffectWhenItEnds) {
  WorldSpec spec = byte_per_ns(2);
  FaultSpec fault;
  fault.kind = FaultSpec::Kind::kPause;
  fault.runtime = 0;
  fault.site = "collective";
  fault.duration = 50'000;
  spec.faults = {fault};
  auto world = make_virtual_world(spec);
  auto ranks = make_ranks(*world, {0, 1});
  Runtime& rt = ranks[0]->rt;
  rt.post([&] {
    rt.fault_point("collective", 0);
    ranks[0]->box->send(1, phantom(0, 1));
    rt.post([&] { ranks[0]->box->send(1, phantom(0, 2)); });
  });
  WorldReport report = world->run(40'000);
  EXPECT_TRUE(ranks[1]->seen.empty());
  report = world->run(kForever);
  const TimeNs one = kOverhead + 48;
  EXPECT_EQ(ranks[1]->seen,
            (std::vector<Seen>{{50'000 + one + kLatency, 0, 1}, {50'000 + 2 * one + kLatency, 0, 2}}));
}

TEST(VirtualEndpoint, AMutedRankNeitherSpeaksNorHearsAndNobodyIsTold) {
  WorldSpec spec = byte_per_ns(2);
  spec.faults = {timed(FaultSpec::Kind::kMute, 1, 5000, 5000)};
  auto world = make_virtual_world(spec);
  auto ranks = make_ranks(*world, {0, 1});
  const TimeNs flight = kOverhead + 48 + kLatency;
  for (const TimeNs t : {1000L, 4500L, 6000L, 12000L}) {
    ranks[0]->rt.call_at(t, [&] { ranks[0]->box->send(1, phantom(0, 1)); });
    ranks[1]->rt.call_at(t, [&] { ranks[1]->box->send(0, phantom(0, 2)); });
  }
  world->run(kForever);
  EXPECT_EQ(ranks[0]->seen,
            (std::vector<Seen>{{1000 + flight, 1, 2}, {4500 + flight, 1, 2}, {12000 + flight, 1, 2}}))
      << "what left before the mute arrives";
  EXPECT_EQ(ranks[1]->seen, (std::vector<Seen>{{1000 + flight, 0, 1}, {12000 + flight, 0, 1}}));
}

TEST(VirtualEndpoint, MiscallAndErrorComeBackFromTheirFaultPointOnce) {
  WorldSpec spec = byte_per_ns(1);
  FaultSpec miscall, failure;
  miscall.kind = FaultSpec::Kind::kMiscall;
  failure.kind = FaultSpec::Kind::kError;
  miscall.runtime = failure.runtime = 0;
  miscall.site = failure.site = "collective";
  miscall.index = 2;
  failure.index = 4;
  spec.faults = {miscall, failure};
  auto world = make_virtual_world(spec);
  Runtime& rt = world->add_runtime(0, "a");
  Runtime& other = world->add_runtime(0, "b");
  std::vector<FaultAction> actions;
  for (std::uint64_t i = 0; i < 6; ++i) actions.push_back(rt.fault_point("collective", i));
  const FaultAction none = FaultAction::kNone;
  EXPECT_EQ(actions,
            (std::vector<FaultAction>{none, none, FaultAction::kMiscall, none, FaultAction::kError, none}));
  EXPECT_EQ(rt.fault_point("collective", 2), none);
  EXPECT_EQ(other.fault_point("collective", 2), none);
}

TEST(VirtualEndpoint, ASlowRankTakesLongerToCompute) {
  WorldSpec spec = byte_per_ns(1);
  FaultSpec fault = timed(FaultSpec::Kind::kSlow, 0, 0, 10 * kSecond);
  fault.factor = 8;
  spec.faults = {fault};
  auto world = make_virtual_world(spec);
  Runtime& rt = world->add_runtime(0, "a");
  std::vector<TimeNs> ends;
  world->start(rt, [](Runtime& r, std::vector<TimeNs>& e) -> Task<void> {
    for (int i = 0; i < 2; ++i) {
      co_await r.compute({.flops = 50e9}, {});
      e.push_back(r.now());
      co_await r.sleep_until(20 * kSecond);
    }
  }(rt, ends));
  world->run(kForever);
  const TimeNs alone = cost::compute_time({.flops = 50e9}, spec.topology.machines[0], 1);
  EXPECT_EQ(ends, (std::vector<TimeNs>{8 * alone, 20 * kSecond + alone}));
}

TEST(VirtualEndpoint, RecordsWhatLeftWhenAndHowBig) {
  WorldSpec spec = byte_per_ns(2);
  spec.record_messages = true;
  auto world = make_virtual_world(spec);
  auto ranks = make_ranks(*world, {0, 1});
  ranks[0]->rt.call_at(10, [&] { ranks[0]->box->send(1, phantom(5, 42)); });
  world->run(kForever);
  ASSERT_EQ(world->messages().size(), 1U);
  const MessageRecord& m = world->messages()[0];
  EXPECT_EQ(m.sent, 10);
  EXPECT_EQ(m.delivered, 10 + kOverhead + 5 + 48 + kLatency);
  EXPECT_EQ(m.from, 0);
  EXPECT_EQ(m.to, 1);
  EXPECT_EQ(m.header[0], 42U);
  EXPECT_EQ(m.bytes, 5U);
}

TEST(VirtualEndpoint, AnEndpointMayGoInsideItsOwnHandler) {
  auto world = make_virtual_world(byte_per_ns(2));
  auto ranks = make_ranks(*world, {0, 1});
  int got = 0;
  ranks[1]->box->set_handlers(
      [&](int, Packet) {
        ++got;
        ranks[1]->box.reset();
      },
      [](int) {});
  ranks[0]->box->send(1, phantom(0));
  ranks[0]->box->send(1, phantom(0));
  world->run(kForever);
  EXPECT_EQ(got, 1);
}

}  // namespace
}  // namespace trireme::runtime
