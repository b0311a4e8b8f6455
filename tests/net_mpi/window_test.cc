// Windows over MPI: what was put is there after a message that tells so, and what is got is what the owner
// wrote.
#include "tests/net/transport_conformance.h"
#include "tests/net_mpi/ranks.h"

namespace trireme::net::testing {
namespace {

TEST(MpiWindow, PutsAndGetsReachEveryPeer) {
  run_mpi(4, [](Node& n) -> Task<void> {
    constexpr std::size_t kBlock = 100'003;
    const auto world = static_cast<std::size_t>(n.world);
    auto made = co_await n.transport->make_window(2 * world * kBlock, n.rt.now() + 30 * kSecond);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (!made.ok()) co_return;
    Window& window = **made;
    EXPECT_EQ(window.bytes(), 2 * world * kBlock);
    EXPECT_EQ(window.peer(n.rank), window.local());
    // The second half is for the others to get.
    const Bytes mine = pattern(world * kBlock, static_cast<std::uint64_t>(n.rank));
    std::copy(mine.begin(), mine.end(), window.local() + world * kBlock);
    co_await barrier(n);

    Log log(n.rt);
    std::vector<Bytes> out, in;
    out.reserve(world);
    in.reserve(world);
    std::uint64_t cookie = 0;
    for (int peer = 0; peer < n.world; ++peer) {
      out.push_back(pattern(kBlock, static_cast<std::uint64_t>(100 * n.rank + peer)));
      in.emplace_back(kBlock);
      const auto at = static_cast<std::size_t>(n.rank) * kBlock;
      window.put(peer, at, view(out.back()), &log, cookie++);
      window.get(peer, world * kBlock + at, view(in.back()), &log, cookie++);
    }
    EXPECT_TRUE(log.entries.empty()) << "completed inside the call";
    co_await log.until(cookie);
    expect_all_ok(log);
    co_await barrier(n);
    for (std::size_t peer = 0; peer < world; ++peer) {
      const Bytes theirs = pattern(world * kBlock, peer);
      const auto at = static_cast<std::ptrdiff_t>(n.rank) * static_cast<std::ptrdiff_t>(kBlock);
      EXPECT_TRUE(std::equal(in[peer].begin(), in[peer].end(), theirs.begin() + at)) << "got from " << peer;
      const Bytes put = pattern(kBlock, static_cast<std::uint64_t>(100 * static_cast<int>(peer) + n.rank));
      EXPECT_TRUE(std::equal(put.begin(), put.end(), window.local() + peer * kBlock)) << "put by " << peer;
    }
    co_await barrier(n);
  });
}

TEST(MpiWindow, RefusesWhatIsOutside) {
  run_mpi(2, [](Node& n) -> Task<void> {
    auto made = co_await n.transport->make_window(1000, n.rt.now() + 30 * kSecond);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (!made.ok()) co_return;
    Log log(n.rt);
    Bytes data(100);
    (*made)->put(1 - n.rank, 901, view(data), &log, 0);
    (*made)->get(1 - n.rank, 1001, {data.data(), 0}, &log, 1);
    (*made)->get(5, 0, view(data), &log, 2);
    co_await log.until(3);
    for (const auto& [cookie, status] : log.entries) EXPECT_EQ(status.code(), Code::kInvalid) << cookie;
    co_await barrier(n);
  });
}

// A rank that never comes: the others are told at the deadline.
TEST(MpiWindow, WaitsForEverybodyUntilTheDeadline) {
  run_mpi(2, [](Node& n) -> Task<void> {
    if (n.rank == 0) {
      const auto made = co_await n.transport->make_window(1000, n.rt.now() + 50 * kMilli);
      EXPECT_EQ(made.status().code(), Code::kDeadline) << made.status().to_string();
    }
    co_await barrier(n);
  });
}

TEST(MpiTransport, RefusesARankThatMpiDoesNotKnow) {
  const auto environment = mpi::start_environment();
  ASSERT_TRUE(environment.ok());
  const auto rt = runtime::make_real_runtime({});
  ConnectOptions options;
  options.world = 5;
  options.rank = (*environment)->rank();
  Status refused;
  const auto connect = [&]() -> Task<void> {
    const auto transport = co_await connect_transport(*rt, "mpi", options);
    refused = transport.status();
  };
  rt->run(connect());
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_NE(refused.message().find("as mpirun started it"), std::string::npos) << refused.message();
}

}  // namespace
}  // namespace trireme::net::testing
