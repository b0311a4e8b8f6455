#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// A fused group that makes the rows of a matrix, and the gradient of a bias that reads them, become one
// fused_bias_grad. Run it after fuse. Exact.
Result<Graph> join_bias_grads(const Graph& graph);

}  // namespace trireme::graph
