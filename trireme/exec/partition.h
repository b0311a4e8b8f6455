// Cuts a graph into strands. Pure; internal to exec.
//
// A *lane* is the set of nodes that depend on exactly the same host ops. Dependencies lead from a lane to
// itself or to a lane with more host ops, so lanes never wait for each other in a circle, however long their
// strands are. A lane runs in node order, one strand after the other; it is cut after the last node that a
// host op or a notice waits for, and before the first node that reads a gated variable. Where there are
// phases, a lane lies in one of them, and host ops of earlier phases do not count: they have ended.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "trireme/cost/cost.h"
#include "trireme/exec/phases.h"
#include "trireme/graph/graph.h"
#include "trireme/graph/storage.h"

namespace trireme::exec {

struct Strand {
  std::vector<std::int32_t> nodes;  // ascending; a host op is alone
  bool is_host = false;
  cost::OpCost cost;
  std::int32_t num_before = 0;        // strands of its phase and gates it waits for
  std::vector<std::int32_t> after;    // strands of its phase that wait for it, ascending
  std::vector<std::int32_t> notices;  // notices that wait for it, ascending
};

struct Partition {
  std::vector<Strand> strands;                                    // by first node, so phase by phase
  std::vector<std::int32_t> first_strand;                         // per phase; behind the last: their number
  std::vector<std::int32_t> strand_of;                            // per node; -1: runs nothing
  std::vector<std::pair<std::int32_t, std::int32_t>> lane_order;  // strands of one lane, (earlier, later)
  std::vector<std::int32_t> notice_before;                        // per notice: strands it waits for
  std::vector<std::vector<std::int32_t>> gate_strands;            // per gate: strands that wait for it
};

using NodeLists = std::vector<std::vector<std::int32_t>>;
// `watched[i]`: the nodes that must have ended before notice i is given, all of one phase. `gated[g]`: the
// nodes that must not start before gate g is open, ascending.
Partition partition(const graph::Graph& graph, const graph::ValueMap<graph::Value>& roots,
                    const NodeLists& watched, const NodeLists& gated, const Phases& phases);

}  // namespace trireme::exec
