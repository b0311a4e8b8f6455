// Several ranks in one test: on threads of this process, or on a virtual cluster. The body runs once per
// rank.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/net/transport.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::comm::testing {

struct RankOptions {
  int world = 2;
  GroupOptions group;
  std::string transport = "inproc";
  std::string rendezvous = "/meet";   // a directory of this host for real ranks
  std::size_t ring_bytes = 1U << 20;  // shm
  // Puts something between the transport and the group.
  std::function<std::unique_ptr<net::Transport>(runtime::Runtime& rt, std::unique_ptr<net::Transport> inner)>
      wrap = nullptr;
  std::vector<std::vector<net::SendRecord>>* sends = nullptr;  // one log per rank
};

using Body = std::function<runtime::Task<void>(runtime::Runtime& rt, Group& group)>;

// Real loops on threads. Aborts the test program with who waits for whom when it takes longer than a minute.
void run_on_threads(const RankOptions& options, const Body& body);

// One rank, from connecting to the end of `body`.
runtime::Task<void> run_rank(runtime::Runtime& rt, int rank, const RankOptions& options, const Body& body);

// A virtual cluster, one machine per rank (shm: one for all). `spec.topology` without machines: made for the
// world size.
struct VirtualResult {
  runtime::WorldReport report;
  std::vector<bool> dead;
};
VirtualResult run_virtual(const RankOptions& options, runtime::WorldSpec spec, const Body& body);

// Fails the current test when a virtual run did not finish, with what it is stuck in.
void expect_finished(const VirtualResult& result);

Tensor tensor_of(const std::vector<float>& values);
Tensor phantom_of(std::int64_t count);
std::vector<float> values_of(const Tensor& t);

}  // namespace trireme::comm::testing
