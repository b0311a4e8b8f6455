// What every transport must do. Written once; a transport instantiates it with a type that has
//   static void run(int world, const Body& body);
// and, when it keeps whatever nobody receives without end,
//   static constexpr bool kBounded = false;
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/net/cluster.h"

namespace trireme::net::testing {

using runtime::Task;

inline constexpr Fingerprint kSum{.kind = 1, .dtype = 2, .format = 0, .count = 7};

inline Bytes pattern(std::size_t bytes, std::uint64_t seed) {
  Bytes out(bytes);
  std::uint64_t x = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (std::size_t i = 0; i < bytes; i += sizeof(x)) {
    x = x * 6364136223846793005ULL + 1442695040888963407ULL;
    std::memcpy(out.data() + i, &x, std::min(sizeof(x), bytes - i));
  }
  return out;
}
inline View view(Bytes& bytes) { return {bytes.data(), bytes.size()}; }
inline void expect_all_ok(const Log& log) {
  for (const auto& [cookie, status] : log.entries)
    EXPECT_TRUE(status.ok()) << cookie << ": " << status.to_string();
}

template <typename Cluster>
class TransportConformance : public ::testing::Test {};
TYPED_TEST_SUITE_P(TransportConformance);

TYPED_TEST_P(TransportConformance, KeepsTheOrderPerIdentity) {
  constexpr std::uint32_t kCount = 200;
  TypeParam::run(2, [](Node& n) -> Task<void> {
    Log log(n.rt);
    std::vector<std::uint32_t> values(kCount, 0);
    if (n.rank == 0) std::iota(values.begin(), values.end(), 1);
    for (std::uint32_t i = 0; i < kCount; ++i) {
      const View v{reinterpret_cast<std::byte*>(&values[i]), 4};
      if (n.rank == 0)
        n.transport->send(1, identity(3), kSum, v, &log, i);
      else
        n.transport->recv(0, identity(3), kSum, v, &log, i);
    }
    EXPECT_TRUE(log.entries.empty()) << "completed inside the call";
    co_await log.until(kCount);
    expect_all_ok(log);
    for (std::uint32_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(values[i], i + 1);
      EXPECT_EQ(log.entries[i].first, i);
    }
    co_await barrier(n);
  });
}

TYPED_TEST_P(TransportConformance, MatchesUnexpectedMessagesInAnyOrder) {
  constexpr std::uint32_t kCount = 100;
  TypeParam::run(2, [](Node& n) -> Task<void> {
    Log log(n.rt);
    std::vector<Bytes> buffers;
    for (std::uint32_t i = 0; i < kCount; ++i)
      buffers.push_back(n.rank == 0 ? pattern(i * 97, i) : Bytes(i * 97));
    if (n.rank == 0) {
      for (std::uint32_t i = 0; i < kCount; ++i)
        n.transport->send(1, identity(1, i), kSum, view(buffers[i]), &log, i);
      co_await log.until(kCount);
      co_await barrier(n);
    } else {
      co_await barrier(n);  // everything has arrived before the first recv
      for (std::uint32_t i = kCount; i-- > 0;)
        n.transport->recv(0, identity(1, i), kSum, view(buffers[i]), &log, i);
      EXPECT_TRUE(log.entries.empty()) << "completed inside the call";
      co_await log.until(kCount);
      for (std::uint32_t i = 0; i < kCount; ++i) EXPECT_EQ(buffers[i], pattern(i * 97, i)) << i;
    }
    expect_all_ok(log);
    co_await barrier(n);
  });
}

TYPED_TEST_P(TransportConformance, CarriesHugeAndEmptyMessagesBothWaysAtOnce) {
  TypeParam::run(2, [](Node& n) -> Task<void> {
    const std::size_t huge = (n.rt.is_virtual() ? 4U << 20 : 64U << 20) + 5;
    Log log(n.rt);
    const int other = 1 - n.rank;
    Bytes out = pattern(huge, static_cast<std::uint64_t>(n.rank)), in(huge);
    n.transport->send(other, identity(1), kSum, view(out), &log, 0);
    n.transport->send(other, identity(2), kSum, {}, &log, 1);
    n.transport->recv(other, identity(2), kSum, {}, &log, 2);
    n.transport->recv(other, identity(1), kSum, view(in), &log, 3);
    co_await log.until(4);
    expect_all_ok(log);
    EXPECT_TRUE(in == pattern(huge, static_cast<std::uint64_t>(other)));
    EXPECT_GT(n.transport->bytes_sent(), huge);
    co_await barrier(n);
  });
}

TYPED_TEST_P(TransportConformance, RunsManyIdentitiesBetweenAllPairsAtOnce) {
  TypeParam::run(4, [](Node& n) -> Task<void> {
    constexpr std::uint32_t kParts = 40;
    Log log(n.rt);
    std::vector<Bytes> out, in;
    const auto size_of = [](int from, int to, std::uint32_t part) {
      return static_cast<std::size_t>((from * 7919 + to * 104729 + static_cast<int>(part) * 1299709) % 50000);
    };
    out.reserve(4 * kParts);
    in.reserve(4 * kParts);
    std::uint64_t cookie = 0;
    for (int peer = 0; peer < n.world; ++peer)
      for (std::uint32_t part = 0; part < kParts; ++part) {
        out.push_back(pattern(size_of(n.rank, peer, part), part));
        in.emplace_back(size_of(peer, n.rank, kParts - 1 - part));
        n.transport->send(peer, identity(5, part), kSum, view(out.back()), &log, cookie++);
        n.transport->recv(peer, identity(5, kParts - 1 - part), kSum, view(in.back()), &log, cookie++);
      }
    co_await log.until(cookie);
    expect_all_ok(log);
    for (int peer = 0; peer < n.world; ++peer)
      for (std::uint32_t i = 0; i < kParts; ++i)
        EXPECT_TRUE(in[static_cast<std::size_t>(peer) * kParts + i] ==
                    pattern(size_of(peer, n.rank, kParts - 1 - i), kParts - 1 - i));
    co_await barrier(n);
  });
}

TYPED_TEST_P(TransportConformance, PhantomsTravelBySizeAlone) {
  TypeParam::run(2, [](Node& n) -> Task<void> {
    Log log(n.rt);
    const View phantom{nullptr, std::uint64_t{1} << 35};
    if (n.rank == 0)
      n.transport->send(1, identity(1), kSum, phantom, &log, 0);
    else
      n.transport->recv(0, identity(1), kSum, phantom, &log, 0);
    co_await log.until(1);
    expect_all_ok(log);
    co_await barrier(n);
  });
}

TYPED_TEST_P(TransportConformance, NamesBothSidesOfAMismatchAndGoesOn) {
  TypeParam::run(2, [](Node& n) -> Task<void> {
    Log log(n.rt);
    Bytes a = pattern(100, 1), b = pattern(100, 2), c = pattern(100, 3);
    Fingerprint other = kSum;
    other.kind = 9;
    if (n.rank == 0) {
      n.transport->send(1, identity(1), other, view(a), &log, 0);
      n.transport->send(1, identity(2), kSum, {b.data(), 50}, &log, 1);
      n.transport->send(1, identity(3), kSum, view(c), &log, 2);
      co_await log.until(3);
      expect_all_ok(log);
    } else {
      Bytes in(100);
      n.transport->recv(0, identity(1), kSum, view(in), &log, 0);
      co_await log.until(1);
      n.transport->recv(0, identity(2), kSum, view(in), &log, 1);
      co_await log.until(2);
      for (const auto& [cookie, status] : log.entries) {
        EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
        EXPECT_EQ(status.context().peer, 0);
      }
      const std::string& text = log.entries[0].second.message();
      EXPECT_NE(text.find(other.to_string()), std::string::npos) << text;
      EXPECT_NE(text.find(kSum.to_string()), std::string::npos) << text;
      n.transport->recv(0, identity(3), kSum, view(in), &log, 2);
      co_await log.until(3);
      EXPECT_TRUE(log.entries[2].second.ok());
      EXPECT_EQ(in, c);
    }
    co_await barrier(n);
  });
}

TYPED_TEST_P(TransportConformance, PoisonCompletesEverythingOnceAndDrains) {
  TypeParam::run(2, [](Node& n) -> Task<void> {
    Log log(n.rt);
    Bytes big = pattern(8U << 20, 1), in(1000), late = pattern(10, 1);
    co_await barrier(n);
    if (n.rank == 0) {
      for (std::uint64_t i = 0; i < 20; ++i)
        n.transport->recv(1, identity(1, static_cast<std::uint32_t>(i)), kSum, view(in), &log, i);
      n.transport->send(1, identity(2), kSum, view(big), &log, 20);
      runtime::OneShot<std::size_t> drained(n.rt), again(n.rt);
      n.transport->poison(error(Code::kPeerLost, "[test] poisoned"),
                          [&] { drained.set(log.entries.size()); });
      n.transport->poison(error(Code::kInternal, "[test] too late"), [&] { again.set(log.entries.size()); });
      EXPECT_TRUE(log.entries.empty()) << "completed inside the call";
      co_await drained.wait_until(kForever);
      co_await again.wait_until(kForever);
      EXPECT_EQ(drained.value(), 21U);
      n.transport->send(1, identity(3), kSum, view(late), &log, 21);
      n.transport->recv(1, identity(3), kSum, view(late), &log, 22);
      co_await log.until(23);
      for (const auto& [cookie, status] : log.entries)
        EXPECT_EQ(status.message(), "[test] poisoned") << cookie;
    }
  });
}

TYPED_TEST_P(TransportConformance, TellsOnceThatAPeerClosedAfterWhatItSent) {
  TypeParam::run(3, [](Node& n) -> Task<void> {
    Log log(n.rt);
    Bytes data = pattern(5000, 1), in(5000);
    std::vector<int> closed;
    runtime::OneShot<bool> heard(n.rt);
    bool control_first = false;
    if (n.rank != 1) {
      n.transport->set_control_handler(
          [&](int peer, ByteView) { control_first = peer == 1 && closed.empty(); });
      n.transport->set_closed_handler([&](int peer) {
        closed.push_back(peer);
        if (peer == 1) heard.set(true);
      });
    }
    co_await barrier(n);
    if (n.rank == 1) {
      n.transport->send(0, identity(1), kSum, view(data), &log, 0);
      n.transport->send_control(0, as_bytes("last words"));
      n.transport->send_control(2, as_bytes("last words"));
      co_await log.until(1);
      co_return;
    }
    co_await heard.wait_until(kForever);
    EXPECT_TRUE(control_first);
    if (n.rank == 0) {
      n.transport->recv(1, identity(1), kSum, view(in), &log, 0);
      co_await log.until(1);
      expect_all_ok(log);
      EXPECT_EQ(in, data);
    }
    // One more exchange among those who are left: time for a second notice, if there were one.
    const int other = 2 - n.rank;
    n.transport->send(other, identity(7), kSum, {}, &log, 10);
    n.transport->recv(other, identity(7), kSum, {}, &log, 11);
    co_await log.until(n.rank == 0 ? 3 : 2);
    EXPECT_EQ(std::count(closed.begin(), closed.end(), 1), 1);
    n.transport->set_closed_handler(nullptr);
    n.transport->set_control_handler(nullptr);
  });
}

TYPED_TEST_P(TransportConformance, ControlMessagesWaitForTheirHandler) {
  TypeParam::run(2, [](Node& n) -> Task<void> {
    constexpr int kCount = 100;
    const Bytes longest = pattern(n.transport->most_control_bytes(), 9);
    const int other = 1 - n.rank;
    for (int i = 0; i < kCount; ++i)
      n.transport->send_control(other, i == kCount - 1 ? ByteView(longest) : as_bytes(std::to_string(i)));
    co_await barrier(n);
    std::vector<Bytes> got;
    runtime::OneShot<bool> all(n.rt);
    n.transport->set_control_handler([&](int peer, ByteView bytes) {
      EXPECT_EQ(peer, other);
      got.emplace_back(bytes.begin(), bytes.end());
      if (got.size() == kCount) all.set(true);
    });
    EXPECT_TRUE(got.empty()) << "called inside set_control_handler";
    co_await all.wait_until(kForever);
    EXPECT_EQ(got[0], to_bytes("0"));
    EXPECT_EQ(got[kCount - 1], longest);
    n.transport->set_control_handler(nullptr);
    co_await barrier(n);
  });
}

template <typename Cluster>
constexpr bool holds_senders() {
  if constexpr (requires { Cluster::kBounded; }) return Cluster::kBounded;
  return true;
}

// Control messages that go to and fro; `turns` of them make sure that data had its time.
class ControlRally {
 public:
  ControlRally(Node& node, int peer, int turns) : node_(node), peer_(peer), turns_(turns), done_(node.rt) {
    node_.transport->set_control_handler([this](int, ByteView) {
      if (--turns_ >= 0) node_.transport->send_control(peer_, as_bytes("turn"));
      if (turns_ <= 0) done_.set(true);
    });
  }
  ~ControlRally() { node_.transport->set_control_handler(nullptr); }
  void serve() { node_.transport->send_control(peer_, as_bytes("turn")); }
  Task<void> wait() { (void)co_await done_.wait_until(kForever); }

 private:
  Node& node_;
  int peer_, turns_;
  runtime::OneShot<bool> done_;
};

// 400 MB that nobody receives: the sender must be held before all of it is kept somewhere, control messages
// pass meanwhile, and then everything arrives in order.
TYPED_TEST_P(TransportConformance, HoldsASenderWhomNobodyReceivesWhileControlPasses) {
  TypeParam::run(2, [](Node& n) -> Task<void> {
    constexpr std::uint32_t kCount = 5;
    const std::size_t bytes = n.rt.is_virtual() ? 1U << 20 : 80U << 20;
    Log log(n.rt);
    Bytes buffer(bytes);
    {
      ControlRally rally(n, 1 - n.rank, 300);
      co_await barrier(n);
      if (n.rank == 0) {
        for (std::uint32_t i = 0; i < kCount; ++i)
          n.transport->send(1, identity(1, i), kSum, view(buffer), &log, i);
        rally.serve();
      }
      n.where = "rally";
      co_await rally.wait();
      if (n.rank == 0 && holds_senders<TypeParam>() && !n.rt.is_virtual()) {
        EXPECT_LT(log.entries.size(), kCount);
      }
    }
    n.where = "take";
    if (n.rank == 1) {
      n.transport->send(0, identity(2), kSum, {}, &log, kCount);
      for (std::uint32_t i = 0; i < kCount; ++i) {
        n.transport->recv(0, identity(1, i), kSum, view(buffer), &log, i);
        co_await log.until(i + 2);
      }
    } else {
      n.transport->recv(1, identity(2), kSum, {}, &log, kCount);
    }
    co_await log.until(kCount + 1);
    expect_all_ok(log);
    co_await barrier(n);
  });
}

// A peer goes away in the middle of things: the others hear it once, keep working with each other, and what
// they had with it ends, once, at poison.
TYPED_TEST_P(TransportConformance, APeerThatGoesLeavesTheOthersWorking) {
  TypeParam::run(3, [](Node& n) -> Task<void> {
    Log log(n.rt), with_gone(n.rt);
    Bytes big = pattern(6U << 20, 1), in(1000), small = pattern(1000, 2), got(1000);
    std::vector<int> closed;
    runtime::OneShot<bool> heard(n.rt);
    if (n.rank != 1)
      n.transport->set_closed_handler([&](int peer) {
        closed.push_back(peer);
        if (peer == 1) heard.set(true);
      });
    co_await barrier(n);
    if (n.rank == 1) co_return;
    const int other = 2 - n.rank;
    for (std::uint32_t i = 0; i < 4; ++i) {
      n.transport->send(1, identity(1, i), kSum, view(big), &with_gone, 2 * i);
      n.transport->recv(1, identity(2, i), kSum, view(in), &with_gone, 2 * i + 1);
    }
    co_await heard.wait_until(kForever);
    for (std::uint32_t i = 0; i < 20; ++i) {
      n.transport->send(other, identity(3, i), kSum, view(small), &log, 2 * i);
      n.transport->recv(other, identity(3, i), kSum, view(got), &log, 2 * i + 1);
      co_await log.until(2 * i + 2);
      EXPECT_EQ(got, small);
    }
    expect_all_ok(log);
    EXPECT_EQ(std::count(closed.begin(), closed.end(), 1), 1);
    runtime::OneShot<bool> drained(n.rt);
    n.transport->set_closed_handler(nullptr);
    n.transport->poison(error(Code::kPeerLost, "[test] rank 1 is gone"), [&] { drained.set(true); });
    co_await drained.wait_until(kForever);
    EXPECT_EQ(with_gone.entries.size(), 8U);
    for (const auto& [cookie, status] : with_gone.entries) {
      const bool is_recv = cookie % 2 == 1;
      EXPECT_TRUE(status.message() == "[test] rank 1 is gone" || (!is_recv && status.ok())) << cookie;
    }
  });
}

TYPED_TEST_P(TransportConformance, DestroyingDropsWhatIsOutstandingWithoutCompletingIt) {
  TypeParam::run(2, [](Node& n) -> Task<void> {
    Log log(n.rt);
    Bytes in(1000), big(8U << 20);
    co_await barrier(n);
    n.transport->recv(1 - n.rank, identity(1), kSum, view(in), &log, 0);
    n.transport->poison(error(Code::kCancelled, "[test] end"), [&] { ADD_FAILURE() << "after the end"; });
    n.transport.reset();
    for (int i = 0; i < 20; ++i) co_await n.rt.sleep_for(kMilli / 10);
    EXPECT_TRUE(log.entries.empty());
  });
}

// Two of three ranks come. (MPI fixes the world when it starts: there is nobody to wait for.)
TYPED_TEST_P(TransportConformance, ConnectingEndsAtItsDeadlineAndNamesWhoIsMissing) {
  TypeParam::run(2, [](Node& n) -> Task<void> {
    co_await barrier(n);
    const std::string name(n.transport->name());
    if (name == "mpi") co_return;
    ConnectOptions options = n.options;
    options.world = 3;
    options.epoch = 2;
    // Rank 0 gives up first: what rank 1 sees then is the missing rank or rank 0's end.
    options.deadline = (n.rank == 0 ? 200 : 500) * kMilli;
    options.endpoint_base = 100;
    if (!options.coordinator.empty()) options.coordinator = "machine-0:29501";
    const TimeNs start = n.rt.now();
    auto connected = co_await connect_transport(n.rt, name, options);
    EXPECT_FALSE(connected.ok());
    const Code code = connected.status().code();
    if (n.rank == 0) {
      EXPECT_EQ(code, Code::kDeadline) << connected.status().to_string();
      EXPECT_NE(connected.status().message().find("2"), std::string::npos) << connected.status().to_string();
      EXPECT_GE(n.rt.now() - start, options.deadline);
    } else {
      EXPECT_TRUE(code == Code::kDeadline || code == Code::kPeerLost) << connected.status().to_string();
    }
    if (n.rt.is_virtual()) {
      EXPECT_LE(n.rt.now() - start, options.deadline + 3 * kSecond);
    }
    co_await barrier(n);
  });
}

TYPED_TEST_P(TransportConformance, RefusesStrangePeersAndOtherEpochs) {
  TypeParam::run(2, [](Node& n) -> Task<void> {
    Log log(n.rt);
    Identity old = identity(1);
    old.epoch = 7;
    n.transport->send(5, identity(1), kSum, {}, &log, 0);
    n.transport->recv(-1, identity(1), kSum, {}, &log, 1);
    n.transport->send(1 - n.rank, old, kSum, {}, &log, 2);
    co_await log.until(3);
    for (const auto& [cookie, status] : log.entries) EXPECT_EQ(status.code(), Code::kInvalid) << cookie;
    co_await barrier(n);
  });
}

// Rank 0 forgets rank 1, which lives on without knowing it; ranks 0 and 2 go on.
TYPED_TEST_P(TransportConformance, AForgottenPeerEndsAndTheOthersWork) {
  TypeParam::run(3, [](Node& n) -> Task<void> {
    co_await barrier(n);
    if (!n.transport->capabilities().survives_loss) co_return;
    Log log(n.rt);
    Bytes big = pattern(8U << 20, 1), in(1000), small = pattern(1000, 2);
    runtime::OneShot<bool> released(n.rt);
    if (n.rank == 1) {
      n.where = "forgotten";
      n.transport->set_control_handler([&](int, ByteView) { released.set(true); });
      n.transport->send(0, identity(5), kSum, view(small), &log, 0);  // waits there, then is dropped
      co_await released.wait_until(kForever);
      n.transport->send(0, identity(6), kSum, view(small), &log, 1);  // late: refused
      co_return;
    }
    if (n.rank == 0) {
      n.where = "forget";
      for (std::uint32_t i = 0; i < 10; ++i) n.transport->recv(1, identity(1, i), kSum, view(in), &log, i);
      n.transport->send(1, identity(2), kSum, view(big), &log, 10);
      const Status why = error(Code::kPeerLost, "[test] lost");
      n.transport->forget_peer(1, why);
      n.transport->forget_peer(1, error(Code::kInternal, "[test] too late"));
      EXPECT_TRUE(log.entries.empty()) << "completed inside the call";
      n.transport->send(1, identity(3), kSum, view(small), &log, 11);
      n.transport->recv(1, identity(5), kSum, view(in), &log, 12);
      co_await log.until(13);
      // A send that was through before it was forgotten is well.
      for (const auto& [cookie, status] : log.entries)
        EXPECT_TRUE(status.message() == "[test] lost" || (cookie == 10 && status.ok())) << cookie;
      n.transport->send_control(1, as_bytes("go"));
    }
    n.where = "beside";
    Log after(n.rt);
    n.transport->send(2 - n.rank, identity(7), kSum, view(small), &after, 0);
    n.transport->recv(2 - n.rank, identity(7), kSum, view(in), &after, 1);
    co_await after.until(2);
    expect_all_ok(after);
    EXPECT_EQ(in, pattern(1000, 2));
  });
}

TYPED_TEST_P(TransportConformance, AForgottenGroupEndsAndTheOthersWork) {
  TypeParam::run(2, [](Node& n) -> Task<void> {
    if (!n.transport->capabilities().survives_loss) {
      co_await barrier(n);
      co_return;
    }
    const auto dead = [](std::uint32_t part) {
      Identity id = identity(1, part);
      id.group = 5;
      return id;
    };
    Log log(n.rt);
    Bytes small = pattern(1000, 2), in(1000), other(1000);
    if (n.rank == 1) n.transport->send(0, dead(0), kSum, view(small), &log, 0);
    co_await barrier(n);
    if (n.rank == 0) {
      n.transport->recv(1, dead(1), kSum, view(in), &log, 0);
      n.transport->recv(1, identity(9), kSum, view(other), &log, 1);
      n.transport->forget_group(5, error(Code::kPeerLost, "[test] dead"));
      n.transport->recv(1, dead(2), kSum, view(in), &log, 2);
      co_await log.until(2);
      for (const auto& [cookie, status] : log.entries) EXPECT_EQ(status.message(), "[test] dead") << cookie;
    }
    co_await barrier(n);
    if (n.rank == 1) {
      n.transport->send(0, dead(1), kSum, view(small), &log, 1);
      n.transport->send(0, identity(9), kSum, view(small), &log, 2);
    }
    co_await log.until(3);
    EXPECT_TRUE(log.entries.back().second.ok());
    int waiting = 0;
    n.transport->visit_waiting(
        [&](int, const Identity& id, const Fingerprint&) { waiting += id.group == 5; });
    EXPECT_EQ(waiting, 0);
    if (n.rank == 0) {
      EXPECT_EQ(other, pattern(1000, 2));
    }
    co_await barrier(n);
  });
}

REGISTER_TYPED_TEST_SUITE_P(TransportConformance, KeepsTheOrderPerIdentity,
                            MatchesUnexpectedMessagesInAnyOrder, CarriesHugeAndEmptyMessagesBothWaysAtOnce,
                            RunsManyIdentitiesBetweenAllPairsAtOnce, PhantomsTravelBySizeAlone,
                            NamesBothSidesOfAMismatchAndGoesOn, PoisonCompletesEverythingOnceAndDrains,
                            TellsOnceThatAPeerClosedAfterWhatItSent, ControlMessagesWaitForTheirHandler,
                            HoldsASenderWhomNobodyReceivesWhileControlPasses,
                            APeerThatGoesLeavesTheOthersWorking,
                            DestroyingDropsWhatIsOutstandingWithoutCompletingIt,
                            ConnectingEndsAtItsDeadlineAndNamesWhoIsMissing,
                            RefusesStrangePeersAndOtherEpochs, AForgottenPeerEndsAndTheOthersWork,
                            AForgottenGroupEndsAndTheOthersWork);

}  // namespace trireme::net::testing
