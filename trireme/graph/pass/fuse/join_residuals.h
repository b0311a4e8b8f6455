#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// What a branch gives, its bias, the residual stream that they are added to, and the layer norm of the sum
// become one residual_layer_norm. Run it after hoist_reshapes, before absorb_casts. Exact.
Result<Graph> join_residuals(const Graph& graph);

}  // namespace trireme::graph
