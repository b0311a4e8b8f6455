// Which phase of a run each node belongs to. Pure; internal to exec.
//
// A node belongs to the first phase with an output that needs it: as an input, by a control edge, or because
// it reads a variable before a node of that phase changes it. Nodes are then ordered phase by phase.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trireme/graph/graph.h"

namespace trireme::exec {

struct Phases {
  std::int32_t num = 1;
  // Ascending. Empty: the graph was compiled without phases, and all of it is phase 0.
  std::vector<std::int32_t> of_node = {};
  std::map<std::string, std::int32_t, std::less<>> of_output = {};  // as the caller named them

  std::int32_t of(std::int32_t node) const {
    return of_node.empty() ? 0 : of_node[static_cast<std::size_t>(node)];
  }
  std::int32_t of(std::string_view output) const {
    const auto at = of_output.find(output);
    return at == of_output.end() ? 0 : at->second;
  }
};

struct PhasedGraph {
  graph::Graph graph;
  Phases phases;
};

// Fails unless every output of the graph is in exactly one of the lists, and nothing else is.
Result<PhasedGraph> order_by_phase(const graph::Graph& graph,
                                   const std::vector<std::vector<std::string>>& outputs);

}  // namespace trireme::exec
