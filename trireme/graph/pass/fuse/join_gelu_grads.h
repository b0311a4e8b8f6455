#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// The expression that is the gradient of a gelu becomes one gelu_grad. Run it after gradients, and before
// passes that change constants. Tolerant.
Result<Graph> join_gelu_grads(const Graph& graph);

}  // namespace trireme::graph
