#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// What max pooling left over decides where the gradient of the relu before it counts: the mask is applied to
// the pooled gradient, so that nobody keeps the larger image, and a bias adds up the pooled gradient as well.
// Run it after keep_places. Tolerant: only sums of biases round elsewhere.
Result<Graph> mask_pooled(const Graph& graph);

}  // namespace trireme::graph
