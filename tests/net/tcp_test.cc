// tcp beyond the conformance suite: ranks that do not connect, strangers, peers that send nonsense, and
// control messages that pass while data stands.
#include "trireme/net/tcp/tcp.h"

#include <gtest/gtest.h>

#include "tests/net/cluster.h"
#include "trireme/base/crc32c.h"
#include "trireme/base/rng.h"
#include "trireme/net/stall_clock.h"
#include "trireme/net/tcp/mesh.h"

namespace trireme::net::tcp {
namespace {

using runtime::Runtime;
using runtime::Task;
using testing::identity;
using testing::Log;

ConnectOptions options_of(int rank, int world) {
  ConnectOptions options;
  options.rank = rank;
  options.world = world;
  options.coordinator = "machine-0:29500";
  options.insecure = true;
  options.deadline = 3 * kSecond;
  return options;
}

struct World {
  explicit World(int num_ranks, cost::LinkModel link = {}) {
    runtime::WorldSpec spec;
    spec.topology = cost::Topology::single_switch(num_ranks, {}, link);
    world = make_virtual_world(spec);
    for (int r = 0; r < num_ranks; ++r) ranks.push_back(&world->add_runtime(r, fmt::format("rank {}", r)));
  }
  Runtime& rank(int r) { return *ranks[static_cast<std::size_t>(r)]; }
  void run() {
    const auto report = world->run(100 * kSecond);
    EXPECT_TRUE(report.finished) << report.stuck;
  }
  std::unique_ptr<runtime::VirtualWorld> world;
  std::vector<Runtime*> ranks;
};

// ---- Peers that send nonsense

// Rank 1 connects in good order, then writes `bytes` on a channel.
Task<void> hostile(Runtime& rt, std::uint32_t channel, Bytes bytes) {
  auto met = co_await meet(rt, options_of(1, 2));
  EXPECT_TRUE(met.ok()) << met.status().to_string();
  if (!met.ok()) co_return;
  auto streams = co_await connect_mesh(rt, options_of(1, 2), std::move(met).value(), 10 * kSecond);
  EXPECT_TRUE(streams.ok()) << streams.status().to_string();
  if (!streams.ok()) co_return;
  (void)co_await (*streams)[0].channels[channel]->write_all(bytes, rt.now() + kSecond);
  co_await rt.sleep_for(2 * kSecond);
}

Task<void> victim(Runtime& rt, Code expected) {
  auto connected = co_await connect_tcp(rt, options_of(0, 2));
  EXPECT_TRUE(connected.ok()) << connected.status().to_string();
  if (!connected.ok()) co_return;
  Log log(rt);
  Bytes in(100), out(100);
  (*connected)->recv(1, identity(1), {}, {in.data(), in.size()}, &log, 0);
  co_await rt.sleep_for(500 * kMilli);
  (*connected)->recv(1, identity(2), {}, {in.data(), in.size()}, &log, 1);
  if (expected == Code::kOk) (*connected)->poison(error(Code::kCancelled, "[test] end"), {});
  co_await log.until(2);
  for (const auto& [cookie, status] : log.entries) {
    EXPECT_EQ(status.code(), expected == Code::kOk ? Code::kCancelled : expected) << status.to_string();
    if (expected != Code::kOk) {
      EXPECT_EQ(status.context().peer, 1);
      EXPECT_NE(status.message().find("rank 1 sent rank 0 nonsense"), std::string::npos) << status.message();
    }
  }
}

void attack(std::uint32_t channel, const Bytes& bytes, Code expected) {
  World w(2);
  w.world->start(w.rank(0), victim(w.rank(0), expected));
  w.world->start(w.rank(1), hostile(w.rank(1), channel, bytes));
  w.run();
}

FrameHeader header_of(std::uint64_t message, std::uint64_t offset, std::uint32_t payload) {
  FrameHeader h;
  h.high = identity(1).high();
  h.low = identity(1).low();
  h.message_bytes = message;
  h.offset = offset;
  h.payload_bytes = payload;
  h.more = offset + payload < message;
  return h;
}

Bytes frame(const FrameHeader& header, bool damage = false) {
  const FrameHeaderBytes head = encode(header);
  Bytes payload(header.payload_bytes, std::byte{5});
  const std::uint32_t crc = crc32c(payload);
  Bytes out(head.size() + payload.size() + (payload.empty() ? 0 : sizeof(crc)));
  std::copy(head.begin(), head.end(), out.begin());
  std::copy(payload.begin(), payload.end(), out.begin() + static_cast<std::ptrdiff_t>(head.size()));
  if (!payload.empty()) std::memcpy(out.data() + head.size() + payload.size(), &crc, sizeof(crc));
  if (damage) out[head.size()] ^= std::byte{1};
  return out;
}

TEST(Tcp, BytesThatAreNoFramesAreCorruptAndThePeerIsNamed) {
  attack(kDataChannel, Bytes(64), Code::kCorrupt);
  attack(kControlChannel, Bytes(64), Code::kCorrupt);
  attack(kDataChannel, make_frame(FrameType::kControl, as_bytes("x")), Code::kCorrupt);
  attack(kControlChannel, frame(header_of(10, 0, 10)), Code::kCorrupt);
}

TEST(Tcp, APayloadWithAWrongChecksumDoesNotComplete) {
  attack(kDataChannel, frame(header_of(100, 0, 100), true), Code::kCorrupt);
}

TEST(Tcp, FramesThatDoNotContinueTheirMessageAreCorrupt) {
  attack(kDataChannel, frame(header_of(100, 50, 50)), Code::kCorrupt);
  Bytes twice = frame(header_of(100, 0, 50));
  const Bytes again = frame(header_of(100, 0, 50));
  const std::size_t at = twice.size();
  twice.resize(at + again.size());
  std::copy(again.begin(), again.end(), twice.begin() + static_cast<std::ptrdiff_t>(at));
  attack(kDataChannel, twice, Code::kCorrupt);
}

TEST(Tcp, PromiseOfAHugeMessageTakesNoMemory) {
  FrameHeader huge = header_of(std::uint64_t{1} << 39, 0, 1000);
  huge.high = identity(7).high();
  attack(kDataChannel, frame(huge), Code::kOk);
}

TEST(Tcp, RandomBytesNeverCrash) {
  Philox random(3);
  for (int seed = 0; seed < 100; ++seed) {
    Bytes bytes(64 + random.next_below(4000));
    for (std::byte& b : bytes) b = static_cast<std::byte>(random.next_u32());
    attack(static_cast<std::uint32_t>(seed) % kNumChannels, bytes, Code::kCorrupt);
  }
}

// ---- Data stands, control goes on

Task<void> stuffed(Runtime& rt, bool* heard_in_time) {
  auto connected = co_await connect_tcp(rt, options_of(0, 2));
  EXPECT_TRUE(connected.ok());
  net::Transport& transport = **connected;
  TimeNs longest = 0, last = rt.now();
  int beats = 0;
  transport.set_control_handler([&](int, ByteView) {
    longest = std::max(longest, rt.now() - last);
    last = rt.now();
    ++beats;
  });
  co_await rt.sleep_for(2 * kSecond);  // takes nothing: 300 MB are on their way
  EXPECT_GE(beats, 15);
  *heard_in_time = longest < 100 * kMilli + 5 * kMilli;
  EXPECT_LT(longest, 100 * kMilli + 5 * kMilli);
  transport.set_control_handler(nullptr);
  transport.poison(error(Code::kCancelled, "[test] end"), {});
}

Task<void> stuffer(Runtime& rt) {
  auto connected = co_await connect_tcp(rt, options_of(1, 2));
  EXPECT_TRUE(connected.ok());
  net::Transport& transport = **connected;
  Log log(rt);
  Bytes big(100U << 20);
  for (std::uint16_t i = 0; i < 3; ++i) transport.send(0, identity(i), {}, {big.data(), big.size()}, &log, i);
  for (int beat = 0; beat < 20; ++beat) {
    transport.send_control(0, as_bytes("beat"));
    co_await rt.sleep_for(100 * kMilli);
  }
  EXPECT_EQ(log.entries.size(), 2U) << "two messages fit into what the receiver keeps, the third is held";
  transport.poison(error(Code::kCancelled, "[test] end"), {});
  co_await log.until(3);
}

TEST(Tcp, HeartbeatsPassWhileDataFlowsAndWhileItStands) {
  World w(2, {.latency_ns = 50 * kMicro, .bytes_per_second = 125e6 * 2, .message_overhead_ns = 0});
  bool heard_in_time = false;
  w.world->start(w.rank(0), stuffed(w.rank(0), &heard_in_time));
  w.world->start(w.rank(1), stuffer(w.rank(1)));
  w.run();
  EXPECT_TRUE(heard_in_time);
}

// ---- Slow links

// Two messages of 500 KB each way, at 125 KB/s: each end sees that bytes move, however long that takes.
Task<void> exchange_slowly(Runtime& rt, int rank, TimeNs* longest) {
  auto connected = co_await connect_tcp(rt, options_of(rank, 2));
  EXPECT_TRUE(connected.ok());
  net::Transport& transport = **connected;
  Log log(rt);
  const Bytes out(500'000);
  Bytes in[2] = {Bytes(out.size()), Bytes(out.size())};
  for (std::uint16_t i = 0; i < 2; ++i) {
    transport.send(1 - rank, identity(i), {}, {const_cast<std::byte*>(out.data()), out.size()}, &log, i);
    transport.recv(1 - rank, identity(i), {}, {in[i].data(), in[i].size()}, &log, 2U + i);
  }
  StallClock clock(rt.now());
  while (log.entries.size() < 4) {
    co_await rt.sleep_for(200 * kMilli);
    *longest = std::max(*longest, clock.look(rt.now(), false, transport.motion()));
  }
  EXPECT_GT(rt.now(), 7 * kSecond);
  for (const auto& [cookie, status] : log.entries) EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_GE(transport.motion().moved_bytes, 2'000'000U) << "in and out";
  co_await rt.sleep_for(2 * kSecond);
  EXPECT_EQ(transport.motion().on_the_way, false);
}

TEST(Tcp, BothEndsSeeThatBytesOfALongMessageMove) {
  World w(2, {.latency_ns = 50 * kMicro, .bytes_per_second = 125e3, .message_overhead_ns = 0});
  TimeNs longest[2] = {0, 0};
  for (int r = 0; r < 2; ++r) w.world->start(w.rank(r), exchange_slowly(w.rank(r), r, &longest[r]));
  w.run();
  for (const TimeNs stalled : longest) EXPECT_LE(stalled, 400 * kMilli);
}

// ---- Meeting

Task<void> expect_failure(Runtime& rt, ConnectOptions options, Code code, std::string text) {
  auto connected = co_await connect_tcp(rt, options);
  EXPECT_FALSE(connected.ok());
  EXPECT_EQ(connected.status().code(), code) << connected.status().to_string();
  EXPECT_NE(connected.status().message().find(text), std::string::npos) << connected.status().to_string();
}

Task<void> meet_and_leave(Runtime& rt, ConnectOptions options) {
  auto met = co_await meet(rt, options);
  EXPECT_TRUE(met.ok()) << met.status().to_string();
}

TEST(Tcp, ARankThatMeetsAndThenDoesNotConnectIsNamed) {
  World w(3);
  w.world->start(w.rank(0),
                 expect_failure(w.rank(0), options_of(0, 3), Code::kDeadline, "with ranks 2 within"));
  w.world->start(w.rank(1),
                 expect_failure(w.rank(1), options_of(1, 3), Code::kDeadline, "with ranks 2 within"));
  w.world->start(w.rank(2), meet_and_leave(w.rank(2), options_of(2, 3)));
  w.run();
}

Task<void> connect_and_leave(Runtime& rt, ConnectOptions options) {
  auto connected = co_await connect_tcp(rt, options);
  EXPECT_TRUE(connected.ok()) << connected.status().to_string();
}

TEST(Tcp, AWorldOfOneNeedsNoCoordinator) {
  World w(1);
  ConnectOptions alone = options_of(0, 1);
  alone.coordinator = "";
  w.world->start(w.rank(0), connect_and_leave(w.rank(0), alone));
  w.run();
}

}  // namespace
}  // namespace trireme::net::tcp
