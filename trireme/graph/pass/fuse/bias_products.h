#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// A 16-bit product plus a bias that is only read in the same 16 bits, or as the logits of a loss, becomes one
// matmul_bias_act: the sum is rounded once, and no pass over memory adds the bias. Run it after gradients and
// join_losses, and absorb_casts after it. Tolerant: the bias is rounded to 16 bits.
Result<Graph> bias_products(const Graph& graph);

}  // namespace trireme::graph
