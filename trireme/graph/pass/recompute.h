// Recomputation where a graph runs in phases (exec::CompileOptions::phases).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/graph/graph.h"

namespace trireme::graph {

// Computes cheap values again, in the phase that reads them, instead of keeping them until then: until at the
// end of every phase at least `save_bytes` less are kept than at most before, or nothing more can be done.
// Nodes are in the order of the phases, each of which is given by its outputs; memory of outputs is not
// counted. Exact.
Result<Graph> recompute_between(const Graph& graph, std::span<const std::vector<std::string>> phases,
                                std::int64_t save_bytes);

// Computes again, behind the first phase, what that phase makes of variables alone: so later phases read the
// variables as they are by then. The first phase is given by its outputs.
Result<Graph> reread_variables(const Graph& graph, std::span<const std::string> first);

}  // namespace trireme::graph
