// Faults of links and disks, and restarts: each strikes, at the time and to the extent that docs say, and the
// same seed gives the same trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "tests/runtime/virtual_ranks.h"
#include "trireme/base/bytes.h"
#include "trireme/runtime/files.h"

namespace trireme::runtime {
namespace {

using testing::kClosedWord;
using testing::make_ranks;
using testing::phantom;
using testing::Seen;
using Kind = NetworkFault::Kind;

constexpr TimeNs kLatency = 1000, kOverhead = 20, kFlight = kOverhead + 48 + kLatency;

WorldSpec world_with(int num_machines, std::vector<NetworkFault> faults, bool raw = false) {
  WorldSpec spec;
  spec.topology = cost::Topology::single_switch(
      num_machines, {}, {.latency_ns = kLatency, .bytes_per_second = 1e9, .message_overhead_ns = kOverhead});
  spec.network.faults = std::move(faults);
  spec.network.raw = raw;
  return spec;
}

NetworkFault fault_of(Kind kind, double probability = 1) {
  NetworkFault f;
  f.kind = kind;
  f.probability = probability;
  return f;
}

// What rank 1 hears when rank 0 sends it `count` empty messages, one every 10 us.
struct Heard {
  std::vector<Seen> seen;
  std::vector<Packet> packets;
  WorldReport report;
};
Heard talk(WorldSpec spec, int count) {
  auto world = make_virtual_world(std::move(spec));
  auto ranks = make_ranks(*world, 2);
  for (int i = 0; i < count; ++i)
    ranks[0]->rt.call_at(i * 10'000,
                         [&ranks, i] { ranks[0]->box->send(1, phantom(0, static_cast<std::uint64_t>(i))); });
  Heard heard;
  heard.report = world->run(kForever);
  heard.seen = ranks[1]->seen;
  heard.packets = ranks[1]->packets;
  return heard;
}

std::vector<std::uint64_t> words(const Heard& heard) {
  std::vector<std::uint64_t> out;
  for (const Seen& s : heard.seen) out.push_back(s.word);
  return out;
}

TEST(VirtualNetworkFaults, EveryKindStrikesAndTheSameSeedGivesTheSameTrace) {
  for (const Kind kind :
       {Kind::kLoss, Kind::kDelay, Kind::kDuplicate, Kind::kReorder, Kind::kCorrupt, Kind::kPartition})
    for (const bool raw : {false, true}) {
      NetworkFault f = fault_of(kind, 0.3);
      f.duration = 500'000;  // so that a partition ends
      const auto hash = [&](std::uint64_t seed, bool with_fault) {
        WorldSpec spec = world_with(2, with_fault ? std::vector{f} : std::vector<NetworkFault>{}, raw);
        spec.seed = seed;
        return talk(spec, 100).report.trace_hash;
      };
      EXPECT_NE(hash(1, true), hash(1, false)) << static_cast<int>(kind);
      EXPECT_EQ(hash(1, true), hash(1, true)) << static_cast<int>(kind);
      if (kind != Kind::kPartition) {
        EXPECT_NE(hash(1, true), hash(2, true)) << static_cast<int>(kind);
      }
    }
}

TEST(VirtualNetworkFaults, ALostMessageIsSentAgainAndWhatFollowsWaitsForIt) {
  NetworkFault f = fault_of(Kind::kLoss);
  f.duration = 1;  // strikes the first message only
  WorldSpec spec = world_with(2, {f});
  spec.network.resend_after = 50'000;
  const Heard heard = talk(spec, 10);
  EXPECT_EQ(words(heard), (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}))
      << "ordered, none twice";
  EXPECT_EQ(heard.seen[0].at, 50'000 + kFlight);
  EXPECT_GE(heard.seen[4].at, heard.seen[0].at);
  EXPECT_EQ(heard.seen[9].at, 90'000 + kFlight) << "caught up";
}

TEST(VirtualNetworkFaults, ResendsWaitTwiceAsLongEachTime) {
  NetworkFault f = fault_of(Kind::kLoss);
  f.duration = 40'001;
  WorldSpec spec = world_with(2, {f});
  spec.network.resend_after = 10'000;
  const Heard heard = talk(spec, 1);  // tried at 0, 10, 30 and 70 us
  EXPECT_EQ(heard.seen, (std::vector<Seen>{{70'000 + kFlight, 0, 0}}));
}

TEST(VirtualNetworkFaults, LossByChanceStrikesAboutItsShare) {
  const Heard heard = talk(world_with(2, {fault_of(Kind::kLoss, 0.25)}, /*raw=*/true), 2000);
  EXPECT_GT(heard.seen.size(), 1400U);
  EXPECT_LT(heard.seen.size(), 1600U);
}

TEST(VirtualNetworkFaults, AfterTooManyResendsTheConnectionIsLostOnBothSides) {
  WorldSpec spec = world_with(3, {fault_of(Kind::kLoss)});
  spec.network.faults[0].from = {0};
  spec.network.faults[0].to = {1};
  spec.network.resend_after = 10'000;
  spec.network.max_resends = 2;
  auto world = make_virtual_world(spec);
  auto ranks = make_ranks(*world, 3);
  bool sent = false;
  ranks[0]->box->send(1, phantom(0, 1));
  ranks[0]->box->send(2, phantom(0, 2));
  ranks[0]->rt.call_at(200'000, [&] { ranks[0]->box->send(1, phantom(0, 3), [&] { sent = true; }); });
  ranks[1]->rt.call_at(300'000, [&] { ranks[1]->box.reset(); });
  world->run(kForever);
  EXPECT_EQ(ranks[0]->seen, (std::vector<Seen>{{30'000, 1, kClosedWord}})) << "tried at 0, 10 and 30 us";
  EXPECT_EQ(ranks[1]->seen, (std::vector<Seen>{{30'000, 0, kClosedWord}}));
  EXPECT_EQ(ranks[2]->seen.size(), 2U) << "a message of rank 0, and the close of rank 1";
  EXPECT_TRUE(sent) << "what goes into a lost connection leaves its sender";
}

TEST(VirtualNetworkFaults, ADelaySpikeHoldsWhatFollows) {
  NetworkFault f = fault_of(Kind::kDelay);
  f.duration = 1;
  f.delay = 35'000;
  const Heard heard = talk(world_with(2, {f}), 5);
  EXPECT_EQ(heard.seen[0].at, kFlight + 35'000);
  EXPECT_EQ(words(heard), (std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(heard.seen[4].at, 40'000 + kFlight);
}

TEST(VirtualNetworkFaults, AReorderedMessageIsOvertakenOnlyWhereItIsRaw) {
  NetworkFault f = fault_of(Kind::kReorder);
  f.duration = 1;
  f.delay = 35'000;
  EXPECT_EQ(words(talk(world_with(2, {f}), 5)), (std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(words(talk(world_with(2, {f}, /*raw=*/true), 5)), (std::vector<std::uint64_t>{1, 2, 3, 0, 4}));
}

TEST(VirtualNetworkFaults, ADuplicateCostsTheLinksTwiceAndArrivesTwiceOnlyWhereItIsRaw) {
  NetworkFault f = fault_of(Kind::kDuplicate);
  f.duration = 1;
  const Heard reliable = talk(world_with(2, {f}), 2), raw = talk(world_with(2, {f}, true), 2);
  EXPECT_EQ(words(reliable), (std::vector<std::uint64_t>{0, 1}));
  EXPECT_EQ(words(raw), (std::vector<std::uint64_t>{0, 0, 1}));
  EXPECT_EQ(reliable.report.num_bytes, 3U * 48);
}

TEST(VirtualNetworkFaults, ADamagedMessageIsResentOrWhereItIsRawHasOneBitFlipped) {
  NetworkFault f = fault_of(Kind::kCorrupt);
  f.duration = 1;
  WorldSpec spec = world_with(2, {f});
  const Heard reliable = talk(spec, 1);
  EXPECT_EQ(reliable.seen, (std::vector<Seen>{{spec.network.resend_after + kFlight, 0, 0}}));

  for (const std::uint64_t bytes : {0, 1000}) {
    auto world = make_virtual_world(world_with(2, {f}, /*raw=*/true));
    auto ranks = make_ranks(*world, 2);
    const std::shared_ptr<std::byte> payload(new std::byte[1000](), std::default_delete<std::byte[]>());
    ranks[0]->box->send(1, {.header = {}, .payload = bytes > 0 ? payload : nullptr, .bytes = bytes});
    world->run(kForever);
    ASSERT_EQ(ranks[1]->packets.size(), 1U);
    const Packet& p = ranks[1]->packets[0];
    int flipped = 0;
    for (const std::uint64_t word : p.header) flipped += std::popcount(word);
    for (std::uint64_t i = 0; i < bytes; ++i)
      flipped += std::popcount(static_cast<unsigned>(p.payload.get()[i]));
    EXPECT_EQ(flipped, 1);
    EXPECT_TRUE(std::all_of(payload.get(), payload.get() + 1000, [](std::byte b) {
      return b == std::byte{0};
    })) << "the sender's bytes stay";
  }
}

TEST(VirtualNetworkFaults, APartitionHoldsMessagesBothWaysUntilItEnds) {
  NetworkFault f = fault_of(Kind::kPartition);
  f.from = {0};
  f.to = {1, 2};
  f.at = 5'000;
  f.duration = 20'000;
  for (const bool one_way : {false, true}) {
    f.one_way = one_way;
    WorldSpec spec = world_with(3, {f});
    spec.network.resend_after = 15'000;
    auto world = make_virtual_world(spec);
    auto ranks = make_ranks(*world, 3);
    ranks[0]->rt.call_at(10'000, [&] { ranks[0]->box->send(1, phantom(0, 1)); });
    ranks[2]->rt.call_at(10'000, [&] { ranks[2]->box->send(0, phantom(0, 2)); });
    ranks[1]->rt.call_at(10'000, [&] { ranks[1]->box->send(2, phantom(0, 3)); });
    world->run(kForever);
    EXPECT_EQ(ranks[1]->seen, (std::vector<Seen>{{25'000 + kFlight, 0, 1}}));
    EXPECT_EQ(ranks[0]->seen, (std::vector<Seen>{{(one_way ? 10'000 : 25'000) + kFlight, 2, 2}}));
    EXPECT_EQ(ranks[2]->seen, (std::vector<Seen>{{10'000 + kFlight, 1, 3}})) << "the others hear each other";
  }
}

TEST(VirtualNetworkFaults, ACloseBehindAPartitionIsHeardWhenItEnds) {
  NetworkFault f = fault_of(Kind::kPartition);
  f.duration = 25'000;
  WorldSpec spec = world_with(2, {f});
  spec.network.resend_after = 30'000;
  auto world = make_virtual_world(spec);
  auto ranks = make_ranks(*world, 2);
  ranks[0]->rt.call_at(10'000, [&] { ranks[0]->box.reset(); });
  world->run(kForever);
  EXPECT_EQ(ranks[1]->seen, (std::vector<Seen>{{40'000 + kLatency, 0, kClosedWord}}));
}

TEST(VirtualNetworkFaults, AFaultOfALinkStrikesOnlyWaysOverIt) {
  WorldSpec spec = world_with(3, {fault_of(Kind::kLoss)}, /*raw=*/true);
  spec.network.faults[0].link = 2 * 2 + 1;  // down to machine 2
  auto world = make_virtual_world(spec);
  auto ranks = make_ranks(*world, {0, 1, 2, 2});
  ranks[0]->box->send(1, phantom(0, 1));
  ranks[0]->box->send(2, phantom(0, 2));
  ranks[2]->box->send(0, phantom(0, 3));
  ranks[2]->box->send(3, phantom(0, 4));  // inside the machine
  world->run(kForever);
  EXPECT_EQ(ranks[1]->seen.size(), 1U);
  EXPECT_EQ(ranks[2]->seen.size(), 0U);
  EXPECT_EQ(ranks[0]->seen.size(), 1U);
  EXPECT_EQ(ranks[3]->seen.size(), 1U);
}

// What a rank of every kind of fault does: it computes, reaches fault points, sends and waits.
Task<void> live(Runtime& rt, FabricEndpoint& box) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    co_await rt.compute({.flops = 1e6}, {});
    const FaultAction action = rt.fault_point("step", i);
    Packet packet = phantom(100, i * 10 + static_cast<std::uint64_t>(action));
    box.send(1, std::move(packet));
  }
}

TEST(VirtualRankFaults, EveryKindStrikesAtATimeAndAtAFaultPointAndRepeats) {
  using RankKind = FaultSpec::Kind;
  for (const RankKind kind : {RankKind::kKill, RankKind::kPause, RankKind::kMiscall, RankKind::kError,
                              RankKind::kSlow, RankKind::kMute, RankKind::kRestart})
    for (const bool timed : {false, true}) {
      const auto hash = [&](bool with_fault, std::vector<Seen>* seen = nullptr) {
        WorldSpec spec = world_with(2, {});
        FaultSpec f;
        f.kind = kind;
        f.runtime = 0;
        f.duration = 300 * kMicro;
        f.factor = 3;
        if (timed) f.at = 100 * kMicro;
        if (!timed) f.site = "step";
        f.index = 5;
        if (with_fault) spec.faults = {f};
        auto world = make_virtual_world(spec);
        auto ranks = make_ranks(*world, 2);
        world->start(ranks[0]->rt, live(ranks[0]->rt, *ranks[0]->box));
        world->run(kForever);
        const WorldReport report = world->run(kForever);
        if (seen != nullptr) *seen = ranks[1]->seen;
        return report.trace_hash;
      };
      std::vector<Seen> plain, struck;
      const std::uint64_t without = hash(false, &plain), with = hash(true, &struck);
      EXPECT_NE(with, without) << static_cast<int>(kind) << timed;
      EXPECT_EQ(with, hash(true)) << static_cast<int>(kind) << timed;
      EXPECT_NE(struck, plain) << static_cast<int>(kind) << timed << ": its peer saw nothing of it";
    }
}

// Counts its own starts in a synced file, and notes in another one that it never syncs.
Task<void> count_starts(Runtime& rt, std::vector<std::string>& log) {
  const Result<Bytes> synced = co_await rt.files().read("/starts");
  const Result<bool> unsynced = co_await rt.files().exists("/unsynced");
  const std::string before = synced.ok() ? std::string(as_text(*synced)) : "";
  log.push_back(fmt::format("{} at {}: '{}'{}", rt.name(), rt.now() / kSecond, before,
                            *unsynced ? " and unsynced" : ""));
  const std::string text = before + "x";
  (void)co_await rt.files().write_atomic("/starts", as_bytes(text));
  (void)co_await rt.files().write("/unsynced", as_bytes(text));
  co_await rt.sleep_for(10 * kSecond);
  log.push_back(fmt::format("ended at {}", rt.now() / kSecond));
}

TEST(VirtualNetworkFaults, ARestartedRankBeginsAnewWithTheSyncedFilesOfItsMachine) {
  const auto run = [](std::vector<std::string>& log) {
    WorldSpec spec = world_with(1, {});
    FaultSpec restart;
    restart.kind = FaultSpec::Kind::kRestart;
    restart.runtime = 0;
    restart.at = 4 * kSecond;
    restart.duration = 2 * kSecond;
    spec.faults = {restart};
    auto world = make_virtual_world(spec);
    Runtime& rt = world->add_runtime(0, "rank 0");
    world->start_program(rt, [&log](Runtime& r) { return count_starts(r, log); });
    WorldReport report = world->run(5 * kSecond);
    EXPECT_FALSE(report.finished);
    EXPECT_EQ(report.stuck, "1 to be restarted");
    report = world->run(kForever);
    EXPECT_TRUE(report.finished);
    EXPECT_TRUE(world->is_dead(rt));
    return report.trace_hash;
  };
  std::vector<std::string> log, again;
  EXPECT_EQ(run(log), run(again));
  EXPECT_EQ(log, again);
  EXPECT_EQ(log, (std::vector<std::string>{"rank 0 at 0: ''", "rank 0 at 6: 'x'", "ended at 16"}));
}

Task<void> write_many(Runtime& rt, int count, std::vector<Status>& results) {
  const std::string text(100, 'x');
  for (int i = 0; i < count; ++i)
    results.push_back(co_await rt.files().append(fmt::format("/file {}", i % 3), as_bytes(text)));
}

std::vector<Status> write_on(DiskFault fault, std::uint64_t seed, int machine, int count,
                             std::uint64_t* hash = nullptr) {
  WorldSpec spec = world_with(2, {});
  spec.disk_faults = {fault};
  spec.seed = seed;
  auto world = make_virtual_world(spec);
  Runtime& rt = world->add_runtime(machine, "writer");
  std::vector<Status> results;
  world->start(rt, write_many(rt, count, results));
  const WorldReport report = world->run(kForever);
  EXPECT_TRUE(report.finished);
  if (hash != nullptr) *hash = report.trace_hash;
  return results;
}

TEST(VirtualDiskFaults, ErrorsByChanceStrikeTheirShareOnTheirMachine) {
  DiskFault f;
  f.machine = 1;
  f.probability = 0.2;
  const auto failures = [](const std::vector<Status>& results) {
    return std::count_if(results.begin(), results.end(),
                         [](const Status& s) { return s.code() == Code::kUnavailable; });
  };
  EXPECT_EQ(failures(write_on(f, 1, 0, 500)), 0);
  const auto struck = failures(write_on(f, 1, 1, 500));
  EXPECT_GT(struck, 60);
  EXPECT_LT(struck, 140);
  std::uint64_t first = 0, again = 0, other = 0;
  write_on(f, 1, 1, 100, &first);
  write_on(f, 1, 1, 100, &again);
  write_on(f, 2, 1, 100, &other);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

TEST(VirtualDiskFaults, AFullDiskTakesNoMoreBytes) {
  DiskFault f;
  f.kind = DiskFault::Kind::kFull;
  f.capacity_bytes = 450;
  const std::vector<Status> results = write_on(f, 1, 0, 6);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(results[i].ok()) << i;
  for (std::size_t i = 4; i < 6; ++i) {
    EXPECT_EQ(results[i].code(), Code::kExhausted);
    EXPECT_THAT(results[i].message(), ::testing::HasSubstr("no space left"));
  }
}

}  // namespace
}  // namespace trireme::runtime
