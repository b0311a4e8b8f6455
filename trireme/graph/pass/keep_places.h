#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// Max pooling whose gradient is there too keeps a byte per window, the place of its maximum, for it: the
// pooled image need not be kept, nor are maxima looked for again. Run it after gradients and merge_common.
// Exact.
Result<Graph> keep_places(const Graph& graph);

}  // namespace trireme::graph
