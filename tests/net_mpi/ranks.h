// One rank of a test over MPI: the process itself.
#pragma once

#include "tests/net/cluster.h"
#include "trireme/net/mpi/environment.h"

namespace trireme::net::testing {

// Runs the body as this process' rank of the first `world`; other processes have nothing to do.
inline void run_mpi(int world, const Body& body) {
  const auto environment = mpi::start_environment();
  ASSERT_TRUE(environment.ok()) << environment.status().to_string();
  if ((*environment)->rank() >= world) return;
  runtime::RealOptions options;
  options.compute_threads = 1;
  options.spin_ns = 0;
  const auto rt = runtime::make_real_runtime(options);
  Node node{*rt, nullptr, (*environment)->rank(), world};
  const auto watchdog = rt->call_at(rt->now() + 120 * kSecond, [&node] {
    std::fprintf(stderr, "watchdog: rank %d waits in %s\n", node.rank, node.where.c_str());
    std::abort();
  });
  ConnectOptions connect;
  connect.rank = node.rank;
  connect.world = world;
  rt->run(run_rank(node, "mpi", connect, body));
  rt->cancel_timer(watchdog);
}

}  // namespace trireme::net::testing
