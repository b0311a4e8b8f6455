// From the names of a Session's run to the graph that is compiled for it. Pure; internal to exec.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/graph/graph.h"

namespace trireme::exec {

// What a run asks for.
struct RunNames {
  std::map<std::string, TensorType> feeds;
  std::vector<std::string> fetches, effects;
};

// The part of `graph` that computes `fetches` and `effects` (its outputs, by those names) from inputs named
// like the feeds. Fed edges are cut, unknown batch sizes are taken from the feeds. Fails when a feed is
// missing, unknown or of another type than its edge. Then runs the named graph passes in their order.
Result<graph::Graph> session_graph(const graph::Graph& graph, const RunNames& names,
                                   const std::vector<std::string>& passes);

}  // namespace trireme::exec
