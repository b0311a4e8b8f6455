// TCP streams, real (loopback) and virtual (two machines).
#include <gtest/gtest.h>

#include <atomic>

#include "trireme/runtime/network.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/sync.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::runtime {
namespace {

using Body = std::function<Task<void>(Runtime&, Stream&)>;

Bytes pattern(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 251);
  return bytes;
}

Task<void> serve(Runtime& rt, HostPort at, const Body& body) {
  auto listener = rt.network().listen_tcp(at, true);
  EXPECT_TRUE(listener.ok()) << listener.status().to_string();
  auto stream = co_await (*listener)->accept(kForever);
  EXPECT_TRUE(stream.ok()) << stream.status().to_string();
  co_await body(rt, **stream);
}

Task<void> visit(Runtime& rt, HostPort to, const Body& body) {
  auto stream = co_await rt.network().connect_tcp(to, kForever);
  EXPECT_TRUE(stream.ok()) << stream.status().to_string();
  co_await body(rt, **stream);
}

std::unique_ptr<RealRuntime> small_runtime() {
  RealOptions options;
  options.compute_threads = 1;
  options.spin_ns = 0;
  return make_real_runtime(options);
}

// A port that was free a moment ago: both ends must know it before one listens.
std::uint16_t free_port(const std::string& host) {
  const auto rt = small_runtime();
  auto listener = rt->network().listen_tcp({host, 0}, false);
  EXPECT_TRUE(listener.ok()) << listener.status().to_string();
  return (*listener)->address().port;
}

void run_real(const std::string& host, const Body& server, const Body& client) {
  const HostPort at{host, free_port(host)};
  run_in_threads({[&] {
                    auto rt = small_runtime();
                    rt->run(serve(*rt, at, server));
                  },
                  [&] {
                    auto rt = small_runtime();
                    rt->run(visit(*rt, at, client));
                  }});
}

std::unique_ptr<VirtualWorld> make_world(std::vector<FaultSpec> faults = {}) {
  WorldSpec spec;
  spec.topology = cost::Topology::single_switch(2, {}, {});
  spec.faults = std::move(faults);
  return make_virtual_world(spec);
}

void run_virtual(const Body& server, const Body& client) {
  auto world = make_world();
  Runtime &a = world->add_runtime(0, "server"), &b = world->add_runtime(1, "client");
  world->start(a, serve(a, {"machine-0", 4711}, server));
  world->start(b, visit(b, {"machine-0", 4711}, client));
  const auto report = world->run(100 * kSecond);
  EXPECT_TRUE(report.finished) << report.stuck;
}

void run_everywhere(const Body& server, const Body& client) {
  run_real("127.0.0.1", server, client);
  run_real("::1", server, client);
  run_virtual(server, client);
}

TEST(TcpStream, BytesLargerThanTheBuffersPassBothWaysAndEndWithTheStream) {
  constexpr std::size_t kSize = 20U << 20;
  run_everywhere(
      [](Runtime&, Stream& s) -> Task<void> {
        Bytes got(kSize);
        EXPECT_TRUE((co_await s.read_exact(got, kForever)).ok());
        EXPECT_TRUE((co_await s.write_all(got, kForever)).ok());
      },
      [](Runtime&, Stream& s) -> Task<void> {
        const Bytes sent = pattern(kSize);
        EXPECT_TRUE((co_await s.write_all(sent, kForever)).ok());
        Bytes back(kSize);
        EXPECT_TRUE((co_await s.read_exact(back, kForever)).ok());
        EXPECT_TRUE(back == sent);
        std::byte more{};
        const auto end = co_await s.read_some(MutByteView(&more, 1), kForever);
        EXPECT_TRUE(end.ok() && *end == 0) << "a closed peer is the end of the bytes";
        EXPECT_EQ((co_await s.read_exact(MutByteView(&more, 1), kForever)).code(), Code::kPeerLost);
      });
}

// Moves bytes without ever waiting itself, and notes when all are there.
class Mover final : public Poller {
 public:
  Mover(Stream& stream, ByteView out, MutByteView in, OneShot<bool>& done)
      : stream_(stream), out_(out), in_(in), done_(done) {}
  bool poll_on_loop() override {
    const std::size_t before = out_.size() + in_.size();
    if (!out_.empty() && stream_.may_write()) {
      const std::size_t half = out_.size() / 2;
      std::vector<ByteView> pieces;
      for (const ByteView piece : {out_.first(half), out_.subspan(half)})
        if (!piece.empty()) pieces.push_back(piece);
      const auto put = stream_.try_write(pieces);
      EXPECT_TRUE(put.ok()) << put.status().to_string();
      if (put.ok()) out_ = out_.subspan(*put);
    }
    if (!in_.empty() && stream_.may_read()) {
      const std::size_t third = in_.size() / 3;
      std::vector<MutByteView> pieces;
      for (const MutByteView piece : {in_.first(third), in_.subspan(third)})
        if (!piece.empty()) pieces.push_back(piece);
      const auto got = stream_.try_read(pieces);
      EXPECT_TRUE(got.ok()) << got.status().to_string();
      if (got.ok()) in_ = in_.subspan(*got);
    }
    if (out_.empty() && in_.empty()) done_.set(true);
    return out_.size() + in_.size() < before;
  }

 private:
  Stream& stream_;
  ByteView out_;
  MutByteView in_;
  OneShot<bool>& done_;
};

TEST(TcpStream, APollerMovesGatheredPiecesBothWaysAtOnce) {
  const Body body = [](Runtime& rt, Stream& s) -> Task<void> {
    const Bytes out = pattern(10U << 20);
    Bytes in(out.size());
    OneShot<bool> done(rt);
    Mover mover(s, out, in, done);
    rt.network().add_poller(&mover);
    co_await done.wait_until(kForever);
    rt.network().remove_poller(&mover);
    EXPECT_TRUE(in == out);
    std::byte last{1};
    EXPECT_TRUE((co_await s.write_all(ByteView(&last, 1), kForever)).ok());
    EXPECT_TRUE((co_await s.read_exact(MutByteView(&last, 1), kForever)).ok()) << "the peer is done too";
  };
  run_everywhere(body, body);
}

TEST(TcpStream, AWriterIsHeldByAReaderThatDoesNotRead) {
  std::atomic<bool> held{false};
  const Body writer = [&](Runtime& rt, Stream& s) -> Task<void> {
    const Bytes much(64U << 20, std::byte{7});
    const Status status = co_await s.write_all(much, rt.now() + 50 * kMilli);
    EXPECT_EQ(status.code(), Code::kDeadline) << status.to_string();
    held = true;
  };
  const Body reader = [&](Runtime& rt, Stream& s) -> Task<void> {
    while (!held) co_await rt.sleep_for(kMilli);
    Bytes some(100);
    EXPECT_TRUE((co_await s.read_exact(some, kForever)).ok());
    EXPECT_EQ(some, Bytes(100, std::byte{7}));
  };
  run_real("127.0.0.1", writer, reader);
  held = false;
  run_virtual(writer, reader);
}

TEST(TcpStream, WhatOnlyLocalStreamsHaveIsRefused) {
  run_everywhere([](Runtime&, Stream&) -> Task<void> { co_return; },
                 [](Runtime& rt, Stream& s) -> Task<void> {
                   auto bell = rt.network().make_doorbell();
                   EXPECT_EQ((co_await s.send_doorbell(**bell, kForever)).code(), Code::kUnavailable);
                   EXPECT_EQ((co_await s.receive_segment(kForever)).status().code(), Code::kUnavailable);
                 });
}

Task<void> expect_deadlines(Runtime& rt, std::string host) {
  auto listener = rt.network().listen_tcp({host, 0}, false);
  EXPECT_TRUE(listener.ok()) << listener.status().to_string();
  const HostPort at = (*listener)->address();
  EXPECT_NE(at.port, 0);
  const auto nobody = co_await (*listener)->accept(rt.now() + kMilli);
  EXPECT_EQ(nobody.status().code(), Code::kDeadline);
  EXPECT_EQ(rt.network().listen_tcp(at, false).status().code(), Code::kExists);
  auto client = co_await rt.network().connect_tcp(at, rt.now() + 10 * kSecond);
  EXPECT_TRUE(client.ok()) << client.status().to_string();
  EXPECT_EQ((*client)->local_address().host, host);
  auto server = co_await (*listener)->accept(rt.now() + 10 * kSecond);
  Bytes one(1);
  EXPECT_EQ((co_await (*client)->read_some(one, rt.now() + kMilli)).status().code(), Code::kDeadline);
  listener->reset();
  const auto gone = co_await rt.network().connect_tcp(at, rt.now() + kMilli);
  EXPECT_EQ(gone.status().code(), Code::kDeadline) << gone.status().to_string();
  const HostPort nowhere{"no-such-host.invalid", 1};
  const auto unknown = co_await rt.network().connect_tcp(nowhere, rt.now() + kMilli);
  EXPECT_EQ(unknown.status().code(), Code::kNotFound) << unknown.status().to_string();
}

TEST(TcpStream, EveryWaitEndsAtItsDeadline) {
  auto rt = small_runtime();
  rt->run(expect_deadlines(*rt, "127.0.0.1"));
  rt->run(expect_deadlines(*rt, "::1"));
  auto world = make_world();
  Runtime& alone = world->add_runtime(0, "alone");
  world->start(alone, expect_deadlines(alone, "localhost"));
  EXPECT_TRUE(world->run(kForever).finished);
}

TEST(TcpStream, ListeningBeyondLoopbackNeedsInsecure) {
  auto rt = small_runtime();
  auto world = make_world();
  for (Runtime* each : {static_cast<Runtime*>(rt.get()), &world->add_runtime(0, "alone")}) {
    const auto refused = each->network().listen_tcp({"0.0.0.0", 0}, false);
    EXPECT_EQ(refused.status().code(), Code::kUnavailable);
    EXPECT_NE(refused.status().message().find("--insecure"), std::string::npos);
    EXPECT_TRUE(each->network().listen_tcp({"0.0.0.0", 0}, true).ok());
    EXPECT_TRUE(each->network().listen_tcp({"127.0.0.1", 0}, false).ok());
  }
}

Task<void> hear_the_end(Runtime& rt, TimeNs not_before, std::string expected) {
  const HostPort to{"machine-0", 9};
  auto stream = co_await rt.network().connect_tcp(to, kSecond);
  Bytes buffer(expected.size());
  EXPECT_TRUE((co_await (*stream)->read_exact(buffer, 60 * kSecond)).ok());
  EXPECT_EQ(as_text(buffer), expected);
  EXPECT_GE(rt.now(), not_before);
  const auto end = co_await (*stream)->read_some(buffer, 60 * kSecond);
  EXPECT_TRUE(end.ok() && *end == 0);
}

TEST(TcpStream, AKilledVirtualPeerIsHeardAfterWhatItHadSent) {
  FaultSpec kill;
  kill.runtime = 0;
  kill.at = 5 * kMilli;
  auto world = make_world({kill});
  Runtime &a = world->add_runtime(0, "server"), &b = world->add_runtime(1, "client");
  const Body body = [](Runtime& rt, Stream& s) -> Task<void> {
    EXPECT_TRUE((co_await s.write_all(as_bytes("last words"), kForever)).ok());
    co_await rt.sleep_until(kForever);
  };
  world->start(a, serve(a, {"machine-0", 9}, body));
  world->start(b, hear_the_end(b, 0, "last words"));
  EXPECT_TRUE(world->run(kSecond).finished);
}

TEST(TcpStream, WhatAMutedVirtualPeerWritesComesWhenItIsHeardAgain) {
  FaultSpec mute;
  mute.kind = FaultSpec::Kind::kMute;
  mute.runtime = 0;
  mute.at = 5 * kMilli;
  mute.duration = 3 * kSecond;
  auto world = make_world({mute});
  Runtime &a = world->add_runtime(0, "server"), &b = world->add_runtime(1, "client");
  const Body body = [](Runtime& rt, Stream& s) -> Task<void> {
    co_await rt.sleep_until(6 * kMilli);
    EXPECT_TRUE((co_await s.write_all(as_bytes("one"), kForever)).ok());
    co_await rt.sleep_until(4 * kSecond);
    EXPECT_TRUE((co_await s.write_all(as_bytes("two"), kForever)).ok());
  };
  world->start(a, serve(a, {"machine-0", 9}, body));
  world->start(b, hear_the_end(b, 3 * kSecond, "onetwo"));
  EXPECT_TRUE(world->run(60 * kSecond).finished);
}

TEST(TcpStream, TakesAsLongAsTheSlowerLink) {
  WorldSpec spec;
  spec.topology = cost::Topology::single_switch(
      2, {}, {.latency_ns = 1000, .bytes_per_second = 1e8, .message_overhead_ns = 0});
  auto world = make_virtual_world(spec);
  Runtime &a = world->add_runtime(0, "server"), &b = world->add_runtime(1, "client");
  TimeNs started = 0, took = 0;
  const Body send = [&](Runtime& rt, Stream& s) -> Task<void> {
    started = rt.now();
    const Bytes bytes(10'000'000);
    EXPECT_TRUE((co_await s.write_all(bytes, kForever)).ok());
  };
  const Body receive = [&](Runtime& rt, Stream& s) -> Task<void> {
    Bytes bytes(10'000'000);
    EXPECT_TRUE((co_await s.read_exact(bytes, kForever)).ok());
    took = rt.now() - started;
  };
  world->start(a, serve(a, {"machine-0", 9}, send));
  world->start(b, visit(b, {"machine-0", 9}, receive));
  EXPECT_TRUE(world->run(kSecond).finished);
  EXPECT_GT(took, 100 * kMilli);
  EXPECT_LT(took, 101 * kMilli) << "10 MB at 100 MB/s; the window keeps the link busy";
}

TEST(Address, IsReadAndWrittenAsPeopleDo) {
  for (const char* text : {"127.0.0.1:4711", "[::1]:80", "node-7.cluster:65535"}) {
    const auto parsed = parse_host_port(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
    EXPECT_EQ(parsed->to_string(), text);
  }
  for (const char* text : {"", "host", "host:", ":1", "host:65536", "host:-1", "host:1x", "::1:80", "[]:80"})
    EXPECT_EQ(parse_host_port(text).status().code(), Code::kInvalid) << text;
}

}  // namespace
}  // namespace trireme::runtime
