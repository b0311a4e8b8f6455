// Times of messages over several links against closed forms: contention must come out right.
#include <gtest/gtest.h>

#include <map>

#include "tests/runtime/virtual_ranks.h"
#include "trireme/cost/routes.h"

namespace trireme::runtime {
namespace {

using testing::make_ranks;
using testing::phantom;
using testing::Seen;

constexpr TimeNs kOverhead = 20, kLatency = 1000, kUplinkLatency = 100;
constexpr TimeNs kFar = kOverhead + kLatency + 2 * kUplinkLatency;  // of the first byte between racks
constexpr TimeNs kBytes = 10'000;                                   // on the wire; a byte per nanosecond
constexpr cost::LinkModel kLink{
    .latency_ns = kLatency, .bytes_per_second = 1e9, .message_overhead_ns = kOverhead};

Packet message(std::uint64_t word = 0) { return phantom(kBytes - 48, word); }

WorldSpec racks(int num_machines, int per_rack, double oversubscription) {
  WorldSpec spec;
  spec.topology = cost::two_level({.num_machines = num_machines,
                                   .per_rack = per_rack,
                                   .oversubscription = oversubscription,
                                   .uplink_latency_ns = kUplinkLatency},
                                  {}, kLink)
                      .value();
  return spec;
}

WorldSpec world_of(Result<cost::Topology> topology) {
  WorldSpec spec;
  spec.topology = std::move(topology).value();
  return spec;
}

TEST(VirtualTopology, OneMessagePaysItsBytesOnceAndEveryLatency) {
  auto world = make_virtual_world(racks(4, 2, 2));
  auto ranks = make_ranks(*world, 4);
  TimeNs sent_at = -1;
  ranks[0]->box->send(2, message(1), [&] { sent_at = ranks[0]->rt.now(); });
  ranks[2]->box->send(3, message(2));
  world->run(kForever);
  EXPECT_EQ(sent_at, kOverhead + kBytes);
  EXPECT_EQ(ranks[2]->seen, (std::vector<Seen>{{kFar + kBytes, 0, 1}}));
  EXPECT_EQ(ranks[3]->seen, (std::vector<Seen>{{kOverhead + kLatency + kBytes, 2, 2}})) << "as on one switch";
}

TEST(VirtualTopology, TwoFlowsOverOneUplinkTakeTwiceAsLong) {
  auto world = make_virtual_world(racks(4, 2, 2));  // the uplink is as fast as a machine's link
  auto ranks = make_ranks(*world, 4);
  ranks[0]->box->send(2, message());
  ranks[1]->box->send(3, message());
  world->run(kForever);
  EXPECT_EQ(ranks[2]->seen[0].at, kFar + kBytes);
  EXPECT_EQ(ranks[3]->seen[0].at, kFar + 2 * kBytes);
}

// Every machine of the first rack sends to its counterpart in the second; when does the last one arrive?
TimeNs last_of_a_shift(int per_rack, double oversubscription) {
  auto world = make_virtual_world(racks(2 * per_rack, per_rack, oversubscription));
  auto ranks = make_ranks(*world, 2 * per_rack);
  for (int m = 0; m < per_rack; ++m) ranks[static_cast<std::size_t>(m)]->box->send(per_rack + m, message());
  world->run(kForever);
  TimeNs last = 0;
  for (int m = per_rack; m < 2 * per_rack; ++m) {
    EXPECT_EQ(ranks[static_cast<std::size_t>(m)]->seen.size(), 1U);
    last = std::max(last, ranks[static_cast<std::size_t>(m)]->seen.at(0).at);
  }
  return last;
}

TEST(VirtualTopology, AFullUplinkSlowsNobodyAndAnOversubscribedOneAllByItsFactor) {
  for (const int per_rack : {2, 4, 16}) {
    EXPECT_EQ(last_of_a_shift(per_rack, 1), kFar + kBytes) << per_rack;
    EXPECT_EQ(last_of_a_shift(per_rack, 2), kFar + 2 * kBytes) << per_rack;
    EXPECT_EQ(last_of_a_shift(per_rack, 4), kFar + 4 * kBytes) << per_rack;
  }
}

TEST(VirtualTopology, IncastOfManySendersEndsOneMessageAfterTheOther) {
  constexpr int kSenders = 12;
  auto world = make_virtual_world(racks(16, 4, 1));
  auto ranks = make_ranks(*world, 16);
  for (int m = 4; m < 4 + kSenders; ++m) ranks[static_cast<std::size_t>(m)]->box->send(0, message());
  world->run(kForever);
  ASSERT_EQ(ranks[0]->seen.size(), static_cast<std::size_t>(kSenders));
  for (int i = 0; i < kSenders; ++i) {
    EXPECT_EQ(ranks[0]->seen[static_cast<std::size_t>(i)].at, kFar + (i + 1) * kBytes) << i;
  }
}

TEST(VirtualTopology, AMessageBehindABusyUplinkDoesNotHoldTheReceiversLink) {
  auto world = make_virtual_world(racks(6, 2, 2));
  auto ranks = make_ranks(*world, 6);
  ranks[0]->box->send(2, message());     // takes the uplink of the first rack
  ranks[1]->box->send(4, message(1));    // waits there
  ranks[3]->box->send(4, phantom(952));  // has a free way and goes first
  world->run(kForever);
  EXPECT_EQ(ranks[4]->seen, (std::vector<Seen>{{kFar + 1000, 3, 0}, {kFar + 2 * kBytes, 1, 1}}));
}

// A ring of messages: every rank passes on what it hears, `rounds` times; the time of the last arrival.
TimeNs ring_time(WorldSpec spec, int world_size, int rounds) {
  auto world = make_virtual_world(std::move(spec));
  auto ranks = make_ranks(*world, world_size);
  TimeNs last = 0;
  for (int r = 0; r < world_size; ++r) {
    testing::Rank& rank = *ranks[static_cast<std::size_t>(r)];
    const auto pass_on = [&rank, r, world_size](std::uint64_t round) {
      rank.box->send((r + 1) % world_size, message(round));
    };
    rank.box->set_handlers(
        [&last, &rank, pass_on, rounds](int, Packet p) {
          last = std::max(last, rank.rt.now());
          if (p.header[0] + 1 < static_cast<std::uint64_t>(rounds)) pass_on(p.header[0] + 1);
        },
        [](int) {});
    pass_on(0);
  }
  world->run(kForever);
  return last;
}

TEST(VirtualTopology, ARingOverTwoRacksCrossesEachUplinkOncePerRound) {
  const TimeNs near = kOverhead + kLatency + kBytes, far = kFar + kBytes;
  // Every rank's message travels 2 (P - 1) links of the ring, and of any four in a row two join racks.
  EXPECT_EQ(ring_time(racks(4, 2, 2), 4, 6), 3 * near + 3 * far);
  EXPECT_EQ(ring_time(racks(8, 4, 4), 8, 14), 14 * near + 4 * (far - near)) << "at most 4 of 14 in a row";
}

TEST(VirtualTopology, AFatTreeRoutedByDestinationCarriesEveryShiftAtFullSpeed) {
  const int n = 54;
  for (const int shift : {1, 9, 20}) {
    auto world = make_virtual_world(world_of(cost::fat_tree(
        {.num_machines = n, .switch_latency_ns = 100, .spread = cost::Spread::kDestination}, {}, kLink)));
    auto ranks = make_ranks(*world, n);
    for (int m = 0; m < n; ++m) ranks[static_cast<std::size_t>(m)]->box->send((m + shift) % n, message());
    world->run(kForever);
    for (const auto& rank : ranks) {
      ASSERT_EQ(rank->seen.size(), 1U);
      EXPECT_LE(rank->seen[0].at, kOverhead + kLatency + 4 * 100 + kBytes);
    }
  }
}

TEST(VirtualTopology, FlowsThatShareALinkOfATorusTakeTurns) {
  const int sizes[] = {5};
  auto world = make_virtual_world(world_of(cost::torus(sizes, {}, kLink)));
  auto ranks = make_ranks(*world, 5);
  ranks[0]->box->send(1, message(1));
  ranks[0]->box->send(2, message(2));  // over machine 1
  ranks[1]->box->send(2, message(3));
  world->run(kForever);
  const TimeNs first = kOverhead + kBytes;
  EXPECT_EQ(ranks[1]->seen, (std::vector<Seen>{{first + kLatency, 0, 1}}));
  EXPECT_EQ(ranks[2]->seen, (std::vector<Seen>{{first + kLatency, 1, 3}, {2 * first + 2 * kLatency, 0, 2}}));
}

TEST(VirtualTopology, ADgx1PairWithoutALinkGoesOverPcie) {
  auto world = make_virtual_world(world_of(cost::dgx1({}, {})));
  auto ranks = make_ranks(*world, 8);
  ranks[0]->box->send(4, phantom(2'000'000 - 48));
  ranks[0]->box->send(5, phantom(1'200'000 - 48));
  world->run(kForever);
  EXPECT_EQ(ranks[4]->seen.at(0).at, 2000 + 700 + 100'000) << "20 GB/s";
  EXPECT_EQ(ranks[5]->seen.at(0).at, 2000 + 3 * 700 + 500 + 100'000) << "12 GB/s over both root complexes";
}

TEST(VirtualTopology, JitterOfALinkKeepsTheOrderOfAPairOnALongWay) {
  WorldSpec spec = world_of(cost::fat_tree({.num_machines = 16}, {}, kLink));
  for (cost::TopologyLink& l : spec.topology.links) l.jitter = 10;
  auto world = make_virtual_world(spec);
  auto ranks = make_ranks(*world, 16);
  for (std::uint64_t i = 0; i < 300; ++i)
    for (const int from : {0, 5, 9})
      ranks[static_cast<std::size_t>(from)]->box->send(15, phantom(i * 37 % 5000, i));
  world->run(kForever);
  std::uint64_t next[16] = {};
  for (const Seen& s : ranks[15]->seen) EXPECT_EQ(s.word, next[s.from]++) << "from " << s.from;
  EXPECT_EQ(ranks[15]->seen.size(), 900U);
}

TEST(VirtualTopology, MessagesOfAPairKeepTheirOrderThroughCrowdedSwitches) {
  WorldSpec spec = racks(24, 8, 6);
  auto world = make_virtual_world(spec);
  auto ranks = make_ranks(*world, 24);
  for (std::uint64_t i = 0; i < 200; ++i)
    for (int from = 0; from < 16; ++from)
      ranks[static_cast<std::size_t>(from)]->box->send(
          16 + (from + static_cast<int>(i)) % 2,
          phantom((i * 7919 + static_cast<std::uint64_t>(from)) % 30'000, i));
  world->run(kForever);
  for (const int to : {16, 17}) {
    std::map<int, std::uint64_t> last;
    for (const Seen& s : ranks[static_cast<std::size_t>(to)]->seen) {
      if (last.count(s.from) > 0) {
        EXPECT_GT(s.word, last[s.from]) << "from " << s.from;
      }
      last[s.from] = s.word;
    }
    EXPECT_EQ(ranks[static_cast<std::size_t>(to)]->seen.size(), 1600U);
  }
}

}  // namespace
}  // namespace trireme::runtime
