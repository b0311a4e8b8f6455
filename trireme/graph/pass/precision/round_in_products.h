#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// A 16-bit product that alone with others like it reads the rounded copy of a variable reads the variable
// and rounds it itself (op `adapted`), so that nobody keeps the copy from the forward to the backward pass.
// Only products of fewer rows than columns, where the parts of a product read disjoint parts of the variable.
// Run it after absorb_casts. Exact: the same roundings of the same values.
Result<Graph> round_in_products(const Graph& graph);

}  // namespace trireme::graph
