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
  std::vector<std::vector<net::SendRecord>>* sends = nullptr;  // one log per rank
};

using Body = std::function<runtime::Task<void>(runtime::Runtime& rt, Group& group)>;

// Real loops on threads. Aborts the test program with who waits for whom when it takes longer than a minute.
void run_on_threads(const RankOptions& options, const Body& body);

// A virtual cluster, one machine per rank. `spec.topology` without machines: made for the world size.
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
