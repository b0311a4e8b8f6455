// shm beyond the conformance suite: ranks that do not come, strangers, and peers that write nonsense.
#include "trireme/net/shm/shm.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "tests/net/cluster.h"
#include "trireme/base/rng.h"
#include "trireme/net/shm/rendezvous.h"
#include "trireme/net/shm/ring.h"

namespace trireme::net::shm {
namespace {

using runtime::Runtime;
using runtime::Task;
using testing::Log;

ConnectOptions options_of(int rank, int world) {
  ConnectOptions options;
  options.rank = rank;
  options.world = world;
  options.rendezvous = "/meet";
  options.deadline = 3 * kSecond;
  options.ring_bytes = 4096;
  return options;
}

struct World {
  explicit World(int num_ranks) {
    runtime::WorldSpec spec;
    spec.topology = cost::Topology::single_switch(1, {}, {});
    world = make_virtual_world(spec);
    for (int r = 0; r < num_ranks; ++r) ranks.push_back(&world->add_runtime(0, fmt::format("rank {}", r)));
  }
  std::unique_ptr<runtime::VirtualWorld> world;
  std::vector<Runtime*> ranks;
};

Task<void> expect_failure(Runtime& rt, ConnectOptions options, Code code, std::string text, TimeNs within) {
  auto connected = co_await connect_shm(rt, options);
  EXPECT_FALSE(connected.ok());
  EXPECT_EQ(connected.status().code(), code) << connected.status().to_string();
  EXPECT_NE(connected.status().message().find(text), std::string::npos) << connected.status().to_string();
  EXPECT_LE(rt.now(), within) << connected.status().to_string();
}

TEST(Shm, RankThatDoesNotArriveIsNamedAtTheDeadline) {
  World w(3);
  for (int rank : {0, 1}) {
    Runtime& rt = *w.ranks[static_cast<std::size_t>(rank)];
    w.world->start(
        rt, expect_failure(rt, options_of(rank, 3), Code::kDeadline, "waited for ranks 2 for", 4 * kSecond));
  }
  EXPECT_TRUE(w.world->run(60 * kSecond).finished);
}

TEST(Shm, ConnectingRankOfAnotherWorldIsRefusedAtOnce) {
  World w(2);
  w.world->start(*w.ranks[0],
                 expect_failure(*w.ranks[0], options_of(0, 2), Code::kDeadline, "got world 3", 4 * kSecond));
  ConnectOptions wrong = options_of(1, 3);
  w.world->start(*w.ranks[1],
                 expect_failure(*w.ranks[1], wrong, Code::kMismatch, "got world 2, expected 3", kSecond));
  EXPECT_TRUE(w.world->run(60 * kSecond).finished);
}

TEST(Shm, ConnectingRankOfAnotherEpochIsRefused) {
  World w(2);
  w.world->start(*w.ranks[0],
                 expect_failure(*w.ranks[0], options_of(0, 2), Code::kDeadline, "got epoch 9", 4 * kSecond));
  ConnectOptions wrong = options_of(1, 2);
  wrong.epoch = 9;
  w.world->start(*w.ranks[1],
                 expect_failure(*w.ranks[1], wrong, Code::kMismatch, "got epoch 1, expected 9", kSecond));
  EXPECT_TRUE(w.world->run(60 * kSecond).finished);
}

TEST(Shm, RingSizeMustBeAPowerOfTwo) {
  World w(1);
  ConnectOptions odd = options_of(0, 1);
  odd.ring_bytes = 5000;
  w.world->start(*w.ranks[0], expect_failure(*w.ranks[0], odd, Code::kInvalid, "got 5000 bytes", kSecond));
  EXPECT_TRUE(w.world->run(kSecond).finished);
}

// Rank 1 meets in good order, then writes `damage` into the ring of rank 0 that belongs to it.
using Damage = void (*)(Block block, Philox& random);
Task<void> hostile(Runtime& rt, Damage damage, std::uint64_t seed) {
  auto connected = co_await rendezvous(rt, options_of(1, 2));
  EXPECT_TRUE(connected.ok()) << connected.status().to_string();
  if (!connected.ok()) co_return;
  Philox random(seed);
  PeerLink& link = connected->links[0];
  damage(block_of(link.segment->data(), 1, 4096), random);
  link.bell->ring();
  co_await rt.sleep_for(kSecond);
}

Task<void> victim(Runtime& rt, Code expected) {
  const ConnectOptions options = options_of(0, 2);
  auto connected = co_await connect_shm(rt, options);
  EXPECT_TRUE(connected.ok()) << connected.status().to_string();
  if (!connected.ok()) co_return;
  Log log(rt);
  Bytes in(100);
  (*connected)->recv(1, testing::identity(1), {}, {in.data(), in.size()}, &log, 0);
  co_await rt.sleep_for(500 * kMilli);
  (*connected)->recv(1, testing::identity(2), {}, {in.data(), in.size()}, &log, 1);
  if (expected == Code::kOk) {
    (*connected)->poison(error(Code::kCancelled, "[test] end"), {});
  }
  co_await log.until(2);
  for (const auto& [cookie, status] : log.entries) {
    EXPECT_EQ(status.code(), expected == Code::kOk ? Code::kCancelled : expected) << status.to_string();
    if (expected != Code::kOk) {
      EXPECT_EQ(status.context().peer, 1);
    }
  }
}

void attack(Damage damage, Code expected, std::uint64_t seed = 1) {
  World w(2);
  w.world->start(*w.ranks[0], victim(*w.ranks[0], expected));
  w.world->start(*w.ranks[1], hostile(*w.ranks[1], damage, seed));
  const auto report = w.world->run(60 * kSecond);
  EXPECT_TRUE(report.finished) << report.stuck;
}

TEST(Shm, WritePositionOutsideTheRingIsCorrupt) {
  attack([](Block b, Philox&) { b.data_header->tail = 1U << 20; }, Code::kCorrupt);
  attack([](Block b, Philox&) { b.data_header->tail = 65; }, Code::kCorrupt);
  attack([](Block b, Philox&) { b.data_header->tail = UINT64_MAX - 63; }, Code::kCorrupt);
  attack([](Block b, Philox&) { b.control_header->tail = 1U << 30; }, Code::kCorrupt);
}

TEST(Shm, FrameThatMakesNoSenseIsCorrupt) {
  attack([](Block b, Philox&) { b.data_header->tail = 64; }, Code::kCorrupt);  // zeros
  attack(
      [](Block b, Philox&) {
        RingFrameHeader h{};
        h.magic = kFrameMagic;
        h.bytes = UINT64_MAX;
        std::memcpy(b.data, &h, sizeof(h));
        b.data_header->tail = 64;
      },
      Code::kCorrupt);
  attack(
      [](Block b, Philox&) {
        RingFrameHeader h{};
        h.magic = kFrameMagic;
        h.type = RingFrameType::kControl;
        h.bytes = 1U << 20;
        std::memcpy(b.control, &h, sizeof(h));
        b.control_header->tail = 128;
      },
      Code::kCorrupt);
}

TEST(Shm, PromiseOfAHugeMessageTakesNoMemory) {
  attack(
      [](Block b, Philox&) {
        RingFrameHeader h{};
        h.magic = kFrameMagic;
        h.high = testing::identity(7).high();
        h.bytes = std::uint64_t{1} << 39;
        std::memcpy(b.data, &h, sizeof(h));
        b.data_header->tail = 64;
      },
      Code::kOk);
}

TEST(Shm, RandomBytesNeverCrash) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed)
    attack(
        [](Block b, Philox& random) {
          for (int i = 0; i < 4096; ++i) b.data[i] = b.control[i] = static_cast<std::byte>(random.next_u32());
          b.control_header->head = random.next_u64();
          b.data_header->tail = std::uint64_t{random.next_below(65)} * 64 + 64;
          b.control_header->tail = random.next_u64();
        },
        Code::kCorrupt, seed);
}

// A rank's loop turns while a large message is on its way, so that it sends heartbeats: both sides move at
// most 4 MiB and a piece in a turn, however fast the other one is.
TEST(Shm, LargeMessageLeavesTheLoopItsTurns) {
  constexpr std::size_t kBytes = 96U << 20;
  std::string dir = (std::filesystem::temp_directory_path() / "trireme-net-XXXXXX").string();
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  testing::run_real("shm", 2, dir, [](testing::Node& node) -> Task<void> {
    Log log(node.rt);
    Bytes data(kBytes);
    struct Turns {
      Runtime& rt;
      int count = 0;
      bool goes_on = true;
      void again() {
        ++count;
        if (goes_on) rt.post([this] { again(); });
      }
    } turns{node.rt};
    turns.again();
    const View view{data.data(), data.size()};
    if (node.rank == 0)
      node.transport->send(1, testing::identity(1), {}, view, &log, 0);
    else
      node.transport->recv(0, testing::identity(1), {}, view, &log, 0);
    co_await log.until(1);
    EXPECT_GE(turns.count, 20);
    turns.goes_on = false;
    co_await testing::barrier(node);
  });
  std::filesystem::remove_all(dir);
}

TEST(ShmRing, CarriesBytesAroundTheEnd) {
  alignas(64) static std::byte memory[sizeof(RingHeader) + 4096];
  std::memset(memory, 0, sizeof(memory));
  auto* header = reinterpret_cast<RingHeader*>(memory);
  RingWriter writer(header, memory + sizeof(RingHeader), 4096);
  RingReader reader(header, memory + sizeof(RingHeader), 4096);
  for (std::uint32_t round = 0; round < 100; ++round) {
    std::vector<std::uint32_t> out(700, round), in(700);
    std::uint64_t free = 0, available = 0;
    ASSERT_TRUE(writer.free_bytes(free));
    ASSERT_EQ(free, 4096U);
    writer.write(out.data(), 2800);
    ASSERT_TRUE(reader.available(available));
    ASSERT_EQ(available, 0U) << "nothing before publish";
    writer.publish();
    writer.ask_for_bell();
    ASSERT_TRUE(reader.available(available));
    ASSERT_EQ(available, round_up(2800));
    reader.read(in.data(), 2800);
    ASSERT_TRUE(reader.release()) << "the producer asked";
    ASSERT_FALSE(reader.release()) << "once";
    ASSERT_EQ(in, out);
  }
}

// A message that flows through its ring in pieces is seen to move at both ends.
Task<void> count_traffic(testing::Node& node) {
  Log log(node.rt);
  const std::uint64_t before = node.transport->motion().moved_bytes;
  Bytes bytes(1U << 20);
  const net::View view{bytes.data(), bytes.size()};
  if (node.rank == 0)
    node.transport->send(1, testing::identity(1), {}, view, &log, 0);
  else
    node.transport->recv(0, testing::identity(1), {}, view, &log, 0);
  co_await log.until(1);
  EXPECT_GE(node.transport->motion().moved_bytes - before, bytes.size()) << "rank " << node.rank;
  co_await testing::barrier(node);
}

TEST(Shm, TrafficCountsWhatMovesInAndOut) { testing::run_virtual("shm", 2, count_traffic); }

}  // namespace
}  // namespace trireme::net::shm
