#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// lstm_kept and lstm_kept_grad on f32 values read, keep and give `low` (bf16 or f16), between casts;
// gradients of weights and biases stay f32. For processors with kernels for it. Run it after keep_gates,
// merge_common and absorb_casts after it. Tolerant.
Result<Graph> lower_gates(const Graph& graph, DType low);

}  // namespace trireme::graph
