// A pass of one layer of recurrence: see keep_gates.cc.
#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// An lstm and its gradient become lstm_kept and lstm_kept_grad: what the gradient needs is kept instead of
// computed again, for 5 T B H more elements between the two. Others stay as they are.
Result<Graph> keep_gates(const Graph& graph);

}  // namespace trireme::graph
