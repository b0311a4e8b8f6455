// Ranks that share a process: the conformance of a transport with a seat each, and what several seats do.
#include "trireme/net/seats.h"

#include <gmock/gmock.h>

#include "tests/net/transport_conformance.h"

namespace trireme::net::testing {
namespace {

using ::testing::HasSubstr;

// Ranks 0 and 1 in process 0, rank 2 in process 1, ranks 3, 4 and 5 in process 2.
const std::vector<int> kProcesses{0, 0, 1, 2, 2, 2};
constexpr int kRanks = 6;

Result<std::unique_ptr<Seats>> seats_of(Node& process, std::vector<int> processes) {
  return Seats::make(process.rt, std::move(process.transport), std::move(processes), 1);
}

// The body of every rank, those of a process side by side.
Body seated(const std::vector<int>& processes, const Body& body) {
  return [processes, body](Node& process) -> Task<void> {
    const auto seats = *seats_of(process, processes);
    std::vector<std::unique_ptr<Node>> nodes;
    std::vector<Task<Status>> running;
    for (const int rank : seats->own()) {
      nodes.push_back(std::make_unique<Node>(
          Node{process.rt, seats->take(rank), rank, static_cast<int>(processes.size())}));
      const auto one = [](Node& node, const Body& of) -> Task<Status> {
        co_await of(node);
        node.transport.reset();
        co_return Status();
      };
      running.push_back(one(*nodes.back(), body));
    }
    process.where = "seats";
    EXPECT_TRUE((co_await runtime::when_all(process.rt, std::move(running))).ok());
  };
}

void on_both(const Body& body) {
  run_real("inproc", 3, "", seated(kProcesses, body));
  run_virtual("inproc", 3, seated(kProcesses, body));
}

TEST(Seats, CarryMessagesBetweenAllRanks) {
  on_both([](Node& n) -> Task<void> {
    Log log(n.rt);
    std::vector<Bytes> sent, got;
    std::uint64_t cookie = 0;
    constexpr std::uint16_t kGroups[] = {0, 3, 0xFFFE};  // of all, of a line, of letters
    for (const std::uint16_t group : kGroups)
      for (int peer = 0; peer < kRanks; ++peer)
        for (std::uint32_t part = 0; part < 3; ++part) {
          const auto bytes = static_cast<std::size_t>(100 * part);
          const auto seed = [&](int from, int to) {
            return static_cast<std::uint64_t>(((from * kRanks + to) * 4 + static_cast<int>(part)) * 65536 +
                                              group);
          };
          sent.push_back(pattern(bytes, seed(n.rank, peer)));
          got.push_back(pattern(bytes, seed(peer, n.rank)));
        }
    std::vector<Bytes> received;
    for (const Bytes& expected : got) received.emplace_back(expected.size());
    std::size_t at = 0;
    for (const std::uint16_t group : kGroups)
      for (int peer = 0; peer < kRanks; ++peer)
        for (std::uint32_t part = 0; part < 3; ++part, ++at) {
          Identity id = identity(4, part);
          id.group = group;
          n.transport->send(peer, id, kSum, view(sent[at]), &log, cookie++);
          n.transport->recv(peer, id, kSum, view(received[at]), &log, cookie++);
        }
    co_await log.until(cookie);
    expect_all_ok(log);
    EXPECT_EQ(received, got);
    co_await barrier(n);
  });
}

TEST(Seats, NameTheRanksOfAMismatch) {
  on_both([](Node& n) -> Task<void> {
    if (n.rank == 3 || n.rank == 4) {  // in one process
      Log log(n.rt);
      Bytes four(4);
      Fingerprint other = kSum;
      other.count = 9;
      if (n.rank == 3)
        n.transport->send(4, identity(1), other, view(four), &log, 0);
      else
        n.transport->recv(3, identity(1), kSum, view(four), &log, 0);
      co_await log.until(1);
      if (n.rank == 4) {
        EXPECT_EQ(log.entries[0].second.code(), Code::kMismatch);
        EXPECT_THAT(log.entries[0].second.message(), HasSubstr("rank 3"));
      }
    }
    co_await barrier(n);
  });
}

TEST(Seats, HandControlMessagesToTheirRank) {
  on_both([](Node& n) -> Task<void> {
    std::vector<int> heard(kRanks, 0);
    runtime::OneShot<bool> all(n.rt);
    n.transport->set_control_handler([&](int peer, ByteView bytes) {
      EXPECT_EQ(bytes.size(), static_cast<std::size_t>(10 * peer + n.rank));
      ++heard[static_cast<std::size_t>(peer)];
      if (std::count(heard.begin(), heard.end(), 1) == kRanks) all.set(true);
    });
    for (int peer = 0; peer < kRanks; ++peer)
      n.transport->send_control(peer, Bytes(static_cast<std::size_t>(10 * n.rank + peer)));
    co_await all.wait_until(kForever);
    co_await barrier(n);
    n.transport->set_control_handler(nullptr);
  });
}

TEST(Seats, KnowWhoIsOnTheirHost) {
  run_virtual("inproc", 3, seated(kProcesses, [](Node& n) -> Task<void> {
                const std::vector<int> hosts{0, 0, 2, 3, 3, 3};
                for (int r = 0; r < kRanks; ++r)
                  EXPECT_EQ(n.transport->host_of(r), hosts[static_cast<std::size_t>(r)]);
                EXPECT_FALSE(n.transport->capabilities().survives_loss);
                co_await barrier(n);
              }));
}

TEST(Seats, AProcessThatGoesIsTheEndOfItsRanks) {
  on_both([](Node& n) -> Task<void> {
    std::vector<int> closed;
    runtime::OneShot<bool> gone(n.rt);
    n.transport->set_closed_handler([&](int peer) {
      closed.push_back(peer);
      if (peer == 5 && !gone.is_set()) gone.set(true);
    });
    co_await barrier(n);
    if (n.rank >= 3) co_return;  // process 2
    if (n.rank == 2) {
      co_await gone.wait_until(kForever);
      EXPECT_THAT(closed, ::testing::IsSupersetOf({3, 4, 5}));
    }
    if (n.rank < 2) co_await gone.wait_until(kForever);
    n.transport->set_closed_handler(nullptr);
  });
}

TEST(Seats, PoisonOfOneEndsWhatAllOfTheProcessHaveUnderWay) {
  on_both([](Node& n) -> Task<void> {
    co_await barrier(n);
    if (n.rank < 3) {
      co_await n.rt.sleep_for(100 * kMilli);
      co_return;
    }
    Log log(n.rt);
    Bytes far(4), near(4);
    n.transport->recv(0, identity(1), kSum, view(far), &log, 0);
    n.transport->recv(n.rank == 5 ? 3 : 5, identity(1), kSum, view(near), &log, 1);
    co_await n.rt.sleep_for(10 * kMilli);
    runtime::OneShot<bool> drained(n.rt);
    n.transport->poison(Status(Code::kPeerLost, "the verdict"), [&] { drained.set(true); });
    co_await drained.wait_until(kForever);
    EXPECT_EQ(log.entries.size(), 2U);
    for (const auto& [cookie, status] : log.entries) EXPECT_THAT(status.message(), HasSubstr("the verdict"));
  });
}

TEST(Seats, AreRefusedToProcessesWithoutAnyOrWithTooMany) {
  run_virtual("inproc", 2, [](Node& n) -> Task<void> {
    co_await barrier(n);
    const auto none = seats_of(n, {0, 0});
    EXPECT_THAT(none.status().message(), HasSubstr("process 1 has 0 ranks"));
    co_return;
  });
  run_virtual("inproc", 1, [](Node& n) -> Task<void> {
    const auto many = seats_of(n, std::vector<int>(kMostSeats + 1, 0));
    EXPECT_THAT(many.status().message(), HasSubstr("has 33 ranks, expected 1 to 32"));
    co_return;
  });
}

std::vector<int> one_each(int world) {
  std::vector<int> processes(static_cast<std::size_t>(world));
  std::iota(processes.begin(), processes.end(), 0);
  return processes;
}

}  // namespace

struct SeatOfAThread {
  static constexpr bool kBounded = false;
  static void run(int world, const Body& body) {
    run_real("inproc", world, "", [&](Node& n) -> Task<void> {
      n.transport = (*seats_of(n, one_each(n.world)))->take(n.rank);
      co_await body(n);
    });
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(SeatOfAThread, TransportConformance, SeatOfAThread);

}  // namespace trireme::net::testing
