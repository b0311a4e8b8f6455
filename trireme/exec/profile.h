// Profile: what the nodes of an Execution cost. Asked for by ExecutionOptions::profile; a value.
//
// On a real Runtime times are read around every kernel, on the thread that runs it. On a virtual Runtime they
// are virtual: a strand's time is shared out over its nodes in proportion to their modelled times on a
// generic machine. A phantom Runtime counts a strand's wait for free cores as part of it. Host ops count from
// their start to their end, with all their waiting.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/units.h"

namespace trireme::exec {

struct NodeProfile {
  std::string name;    // of the node
  std::string op;      // its op
  std::string kernel;  // empty: a host op
  int strand = 0;
  std::int64_t calls = 0;
  TimeNs total_ns = 0, min_ns = 0, max_ns = 0;  // over the calls
  TimeNs begin_ns = 0, end_ns = 0;              // of the last call, on the Runtime's clock
  double flops = 0, bytes = 0;                  // of one call, from the op's cost function

  double gflops() const;             // achieved, 10^9 flops per second; 0 when no time was seen
  double gbytes_per_second() const;  // achieved, 10^9 bytes per second
};

struct Profile {
  std::vector<NodeProfile> nodes;  // in node order; nodes that run nothing are left out
  std::int64_t runs = 0;           // completed
  TimeNs run_ns = 0;               // over the runs, from run() to its end
  std::int64_t launches = 0;       // on a GPU: kernels and copies of one run, as they are captured

  TimeNs node_ns() const;  // sum over nodes: exceeds run_ns where strands overlap
  // Nodes by falling time, then totals by op.
  std::string to_text() const;
};

// The last run as a Chrome trace (chrome://tracing, Perfetto): one complete event ("ph": "X") per node, times
// in microseconds, tid = strand. `pid` keeps several traces apart in one file, e.g. the rank.
std::string chrome_trace(const Profile& profile, std::string_view process_name = "trireme", int pid = 0);

}  // namespace trireme::exec
