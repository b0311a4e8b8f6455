// Runs one coroutine per rank over a transport: real threads or the virtual world, under a watchdog.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "trireme/net/factory.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/sync.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::net::testing {

// What a rank's body gets. `where` is what the watchdog prints.
struct Node {
  runtime::Runtime& rt;
  std::unique_ptr<Transport> transport;
  int rank;
  int world;
  std::string where = "connect";
  ConnectOptions options = {};  // how it connected
};
using Body = std::function<runtime::Task<void>(Node&)>;

// Completions in order of arrival; counts that each cookie completes once.
class Log final : public Completion {
 public:
  explicit Log(runtime::Runtime& rt) : rt_(rt) {}
  void on_complete(std::uint64_t cookie, const Status& status) override {
    for (const auto& [seen, s] : entries) EXPECT_NE(seen, cookie) << "completed twice";
    entries.emplace_back(cookie, status);
    if (waiter_ != nullptr) waiter_->set(true);
  }
  runtime::Task<void> until(std::size_t count) {
    while (entries.size() < count) {
      runtime::OneShot<bool> shot(rt_);
      waiter_ = &shot;
      co_await shot.wait_until(kForever);
      waiter_ = nullptr;
    }
  }
  std::vector<std::pair<std::uint64_t, Status>> entries;

 private:
  runtime::Runtime& rt_;
  runtime::OneShot<bool>* waiter_ = nullptr;
};

inline Identity identity(std::uint16_t slot, std::uint32_t part = 0) {
  return {.epoch = 1, .group = 0, .slot = slot, .step = 0, .part = part};
}

// Everybody hears from everybody; nobody closes before all got here.
inline runtime::Task<void> barrier(Node& node) {
  node.where = "barrier";
  Log log(node.rt);
  const Identity id = identity(0xFFFF);
  std::uint64_t cookie = 0;
  for (int peer = 0; peer < node.world; ++peer) {
    if (peer == node.rank) continue;
    node.transport->send(peer, id, {}, {}, &log, cookie++);
    node.transport->recv(peer, id, {}, {}, &log, cookie++);
  }
  co_await log.until(cookie);
}

inline runtime::Task<void> run_rank(Node& node, std::string transport, ConnectOptions options,
                                    const Body& body) {
  auto connected = co_await connect_transport(node.rt, std::move(transport), options);
  EXPECT_TRUE(connected.ok()) << connected.status().to_string();
  if (!connected.ok()) co_return;
  node.transport = std::move(connected).value();
  node.options = options;
  node.where = "body";
  co_await body(node);
  node.transport.reset();
}

inline void run_real(const std::string& transport, int world, const std::string& rendezvous,
                     const Body& body) {
  const auto fabric = runtime::make_fabric();
  std::vector<std::function<void()>> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      runtime::RealOptions options;
      options.name = fmt::format("rank {}", rank);
      options.compute_threads = 1;
      options.fabric = fabric;
      options.spin_ns = 0;
      const auto rt = runtime::make_real_runtime(options);
      Node node{*rt, nullptr, rank, world};
      const auto watchdog = rt->call_at(rt->now() + 120 * kSecond, [&node] {
        std::fprintf(stderr, "watchdog: rank %d waits in %s\n", node.rank, node.where.c_str());
        std::abort();
      });
      ConnectOptions connect;
      connect.rank = rank;
      connect.world = world;
      connect.rendezvous = rendezvous;
      rt->run(run_rank(node, transport, connect, body));
      rt->cancel_timer(watchdog);
    });
  runtime::run_in_threads(std::move(threads));
}

inline void run_virtual(const std::string& transport, int world, const Body& body) {
  runtime::WorldSpec spec;
  const bool one_machine = transport == "shm";
  spec.topology = cost::Topology::single_switch(one_machine ? 1 : world, {}, {});
  spec.latency_jitter = 0.5;
  const auto virtual_world = make_virtual_world(spec);
  std::vector<std::unique_ptr<Node>> nodes;
  for (int rank = 0; rank < world; ++rank) {
    runtime::Runtime& rt = virtual_world->add_runtime(one_machine ? 0 : rank, fmt::format("rank {}", rank));
    nodes.push_back(std::make_unique<Node>(Node{rt, nullptr, rank, world}));
    ConnectOptions connect;
    connect.rank = rank;
    connect.world = world;
    connect.rendezvous = "/meet";
    connect.coordinator = "machine-0:29500";  // tcp
    connect.insecure = true;
    virtual_world->start(rt, run_rank(*nodes.back(), transport, connect, body));
  }
  const auto report = virtual_world->run(100 * kSecond);
  std::string waits;
  for (const auto& node : nodes) waits += fmt::format("rank {} waits in {}; ", node->rank, node->where);
  EXPECT_TRUE(report.finished) << waits << report.stuck;
}

}  // namespace trireme::net::testing
