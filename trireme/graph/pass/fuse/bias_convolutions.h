#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// A 16-bit convolution, a bias and perhaps relu whose result is only read in the same 16 bits become one
// conv2d_bias_act: the sum is rounded once, and no pass over memory adds the bias. Thin images (fewer than 8
// channels) are left alone. Run it after gradients and narrow_copies, and absorb_casts after it. Tolerant:
// the bias is rounded to 16 bits.
Result<Graph> bias_convolutions(const Graph& graph);

}  // namespace trireme::graph
