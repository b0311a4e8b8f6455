#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// Self-attention that splits the rows of one projection into q, k and v, and its gradient, become
// attention_qkv and attention_qkv_grad, which read and write such rows: heads are not moved apart, and the
// gradient does not repeat the forward pass. Run it after gradients and merge_common, and
// eliminate_dead_code after it: the moves are still there. Tolerant: the gradient starts from the rounded y.
Result<Graph> pack_attention(const Graph& graph);

}  // namespace trireme::graph
