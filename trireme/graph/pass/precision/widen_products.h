#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// A 16-bit product that is only read as the f32 of a named output (the gradient of a weight) is not rounded
// to 16 bits before: it becomes an f32 product whose operands are cast (op `adapted`). Run it after
// gradients. Tolerant: one rounding less.
Result<Graph> widen_products(const Graph& graph);

}  // namespace trireme::graph
