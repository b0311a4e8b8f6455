#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// f32 variables that are cast to 16 bits are cast by one cast_all, where the first of the casts stood. For
// devices on which every launch costs. Exact.
Result<Graph> join_casts(const Graph& graph);

}  // namespace trireme::graph
