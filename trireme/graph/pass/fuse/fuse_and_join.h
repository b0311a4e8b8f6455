#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// fuse_elementwise, and small elementwise results of one shape that no node reads (scaled statistics,
// gradients that are cast) are computed together, where the last of them stood: few launches on a device
// whose results leave together. Exact.
Result<Graph> fuse_and_join(const Graph& graph);

}  // namespace trireme::graph
