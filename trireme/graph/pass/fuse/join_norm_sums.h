#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// The gradient of a layer norm, the sum of it and a residual's gradient, the sum's 16-bit copy, and the
// gradient of a bias that is made of the copy, become one layer_norm_grad_sum. Run it after gradients and
// hoist_reshapes, before absorb_casts. Exact.
Result<Graph> join_norm_sums(const Graph& graph);

}  // namespace trireme::graph
