#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// What reads a transpose that undoes another (batch and time, between two recurrent layers) reads what that
// one read. Nodes that nobody reads any more stay: run eliminate_dead_code after it. Exact.
Result<Graph> cancel_transposes(const Graph& graph);

}  // namespace trireme::graph
