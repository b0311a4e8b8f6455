// Where runs of graphs with collectives meet those of other ranks: each needs its partners (decision 011).
#pragma once

#include <vector>

#include "trireme/plan/plan.h"

namespace trireme::graph {
class Graph;
}

namespace trireme::prepare {

// Whether runs of different replicas meet in a graph: in collectives among all workers, or along the data
// axis. Along other axes the ranks of a replica meet, whose runs are the same.
bool replicas_meet(const graph::Graph& graph);

// kInvalid where some rank would wait for a run that never comes: the first shards of all ranks run a train
// graph together, then the second ones, so every rank needs as many; and ranks that take units at their own
// pace never meet.
Status check_meetings(const graph::Graph& train, const plan::Plan& plan,
                      const std::vector<collective::LeafRun>& owners);

}  // namespace trireme::prepare
