// Passes by the names that they have in the table.
#pragma once

#include "trireme/graph/pass/passes.h"

namespace trireme::graph {

inline Result<Graph> run_pass(std::string_view name, const Graph& graph, const PassOptions& options = {}) {
  const PassRow* const row = find_pass(name);
  TR_CHECK(row != nullptr, "no pass is called '{}'", name);
  return row->run(graph, options);
}

}  // namespace trireme::graph
