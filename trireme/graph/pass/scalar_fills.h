#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// A tensor of one value beside another operand of an elementwise op becomes a scalar that is broadcast: it is
// not written, and fusion reads a register. Run it after gradients. Exact.
Result<Graph> scalar_fills(const Graph& graph);

}  // namespace trireme::graph
