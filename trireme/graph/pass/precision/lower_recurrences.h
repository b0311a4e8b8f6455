#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// rnn, lstm, gru and their gradients on f32 values are computed in `dtype` (bf16 or f16), between casts: for
// devices whose kernels of them are much faster in 16 bits. States are then rounded at every step. Run it
// after gradients, merge_common and absorb_casts after it. Tolerant.
Result<Graph> lower_recurrences(const Graph& graph, DType dtype);

}  // namespace trireme::graph
