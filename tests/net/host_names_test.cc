// Hosts by name: what a name means differs between hosts, and some come later than the ranks.
#include <gtest/gtest.h>

#include <atomic>

#include "trireme/net/rendezvous.h"
#include "trireme/runtime/network.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::net {
namespace {

using runtime::Resolve;
using runtime::Runtime;
using runtime::Task;

std::unique_ptr<runtime::RealRuntime> runtime_with(Resolve resolve) {
  runtime::RealOptions options;
  options.compute_threads = 1;
  options.spin_ns = 0;
  options.resolve = std::move(resolve);
  return make_real_runtime(options);
}

std::uint16_t free_port() {
  const auto rt = runtime_with({});
  const auto listener = rt->network().listen_tcp({"0.0.0.0", 0}, true);
  EXPECT_TRUE(listener.ok()) << listener.status().to_string();
  return (*listener)->address().port;
}

ConnectOptions options_of(int rank, int world, std::uint16_t port) {
  ConnectOptions options;
  options.rank = rank;
  options.world = world;
  options.coordinator = fmt::format("node1:{}", port);
  options.insecure = true;
  options.job = "test";
  options.deadline = 20 * kSecond;
  return options;
}

Task<void> meet_as(Runtime& rt, ConnectOptions options, Result<Met>& out) {
  out = co_await meet(rt, std::move(options));
}

using Addresses = decltype(Met::addresses);

// A rank per resolver, each on a thread of its own. What a rank met holds a listener, which ends before its
// runtime does: the addresses are what is left.
std::vector<Result<Addresses>> meet_all(const std::vector<Resolve>& resolvers) {
  const std::uint16_t port = free_port();
  const int world = static_cast<int>(resolvers.size());
  std::vector<Result<Addresses>> found;
  for (int r = 0; r < world; ++r) found.emplace_back(Status(Code::kInternal, "not started"));
  std::vector<std::function<void()>> bodies;
  for (int r = 0; r < world; ++r)
    bodies.emplace_back([&, r] {
      const auto rt = runtime_with(resolvers[static_cast<std::size_t>(r)]);
      Result<Met> met = Status(Code::kInternal, "not started");
      rt->run(meet_as(*rt, options_of(r, world, port), met));
      if (met.ok())
        found[static_cast<std::size_t>(r)] = met->addresses;
      else
        found[static_cast<std::size_t>(r)] = met.status();
    });
  runtime::run_in_threads(std::move(bodies));
  return found;
}

Resolve always(const std::string& address) {
  return [address](const std::string&) { return std::vector<std::string>{address}; };
}

// Rank 1 stands for another host: it reaches node1 at 127.0.0.2, where nobody listens who listens at
// 127.0.1.1.
TEST(HostNames, RankZeroIsFoundWhereItsOwnNameIsLoopback) {
  const auto met = meet_all({always("127.0.1.1"), always("127.0.0.2"), always("127.0.1.1")});
  for (const auto& m : met) ASSERT_TRUE(m.ok()) << m.status().to_string();
  EXPECT_EQ((*met[1])[0].host, "node1");
  EXPECT_EQ((*met[1])[2].host, "node1") << "beside rank 0: a loopback address is of no use elsewhere";
}

TEST(HostNames, ANameThatIsNotKnownYetIsWaitedFor) {
  const auto later = [](int unknown) -> Resolve {
    auto asked = std::make_shared<std::atomic<int>>(0);
    return [asked, unknown](const std::string&) {
      return ++*asked <= unknown ? std::vector<std::string>() : std::vector<std::string>{"127.0.0.1"};
    };
  };
  const auto met = meet_all({later(1), later(2)});
  for (const auto& m : met) ASSERT_TRUE(m.ok()) << m.status().to_string();
}

TEST(HostNames, ANameThatStaysUnknownIsNamedAtTheDeadline) {
  const auto rt = runtime_with([](const std::string&) { return std::vector<std::string>(); });
  for (const int rank : {0, 1}) {
    ConnectOptions options = options_of(rank, 2, 29500);
    options.deadline = 300 * kMilli;
    Result<Met> met = Status(Code::kInternal, "not started");
    rt->run(meet_as(*rt, options, met));
    ASSERT_FALSE(met.ok());
    EXPECT_NE(met.status().message().find("no such host: got 'node1'"), std::string::npos)
        << met.status().to_string();
  }
}

TEST(HostNames, ListeningBeyondThisHostStillNeedsInsecure) {
  const auto rt = runtime_with([](const std::string& host) {
    return std::vector<std::string>{host == "here" ? "127.0.1.1" : "127.0.0.1"};
  });
  const auto host_of = [&](const std::string& host, bool insecure) {
    const auto listener = rt->network().listen_tcp({host, 0}, insecure);
    EXPECT_TRUE(listener.ok()) << listener.status().to_string();
    return (*listener)->address().host;
  };
  EXPECT_EQ(host_of("here", false), "127.0.1.1");
  EXPECT_EQ(host_of("here", true), "0.0.0.0");
  EXPECT_EQ(host_of("localhost", true), "127.0.0.1") << "loopback for everybody";
  EXPECT_EQ(host_of("127.0.1.1", true), "127.0.1.1") << "an address is what it says";
}

}  // namespace
}  // namespace trireme::net
