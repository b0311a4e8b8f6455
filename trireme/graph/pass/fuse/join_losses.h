#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// softmax_cross_entropy, its gradient and `correct` of the same logits become one softmax_cross_entropy_step,
// which reads the logits once and may write the gradient in their place. Only where the gradient of the
// losses does not depend on the losses. Run it after gradients and merge_common. Exact.
Result<Graph> join_losses(const Graph& graph);

}  // namespace trireme::graph
