#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// Gradients of relu, sigmoid, tanh and biases, and max pooling, read the bf16 copy of what a product reads or
// has made, so that nobody keeps it in f32. Run it after gradients and merge_common,
// and absorb_casts after it. Tolerant.
Result<Graph> narrow_copies(const Graph& graph);

}  // namespace trireme::graph
