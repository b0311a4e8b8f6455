// From the names of a Session's run to the graph that is compiled for it. Pure; internal to exec.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/graph/graph.h"

namespace trireme::exec {

// The part of `graph` that computes `fetches` and `effects` (its outputs, by those names) from inputs named
// like the feeds. Fed edges are cut, unknown batch sizes are taken from the feeds. Fails when a feed is
// missing, unknown or of another type than its edge.
Result<graph::Graph> session_graph(const graph::Graph& graph, const std::map<std::string, TensorType>& feeds,
                                   const std::vector<std::string>& fetches,
                                   const std::vector<std::string>& effects);

}  // namespace trireme::exec
