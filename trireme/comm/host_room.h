// What the collectives of a graph need in memory beside its values: pieces that are packed for messages, and
// scratch of their programs (host_ops.h, program_run.h). Pure.
#pragma once

#include <cstdint>

#include "trireme/graph/graph.h"

namespace trireme::comm {

struct HostRoomOptions {
  int world = 1;        // ranks along the axis
  bool direct = false;  // sums are read where they lie in memory that the ranks share
};
// The bytes for one run of the graph, whose collectives may each be under way from their turn until their
// output is first read. Memory is kept, and used by one after the other.
Result<std::int64_t> host_room(const graph::Graph& graph, const HostRoomOptions& options);

}  // namespace trireme::comm
