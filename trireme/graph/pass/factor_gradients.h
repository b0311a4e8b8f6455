// Gradients as their two factors: the gradient of a fully connected layer's weight is one product of what
// came into the layer and the gradient of what left it, so K (M + N) numbers say what M N do (sufficient
// factors: Xie et al., "Distributed machine learning via sufficient factor broadcasting", 2015; Chilimbi et
// al., "Project Adam", OSDI 2014). Whoever has both makes the product himself, by the same kernel.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trireme/graph/graph.h"

namespace trireme::graph {

struct FactoredGradient {
  std::string parameter;
  TensorType u, v;  // as they enter the product
  Graph product;    // inputs "u" and "v", output "grad"; its node has the name it had in the whole graph
};

struct FactoredGraph {
  Graph graph;
  std::vector<FactoredGradient> factored;  // in the order of the names
};

// Takes those of the named parameters whose output "grad:<parameter>" is one f32 product of two matrices that
// nobody else reads: a tied weight, a sum of products, anything after the product are left alone. In
// place of that output the graph has "factor:u:<parameter>" and "factor:v:<parameter>": copies, made where
// the product was, v after u. Exact.
Result<FactoredGraph> factor_gradients(const Graph& graph, std::span<const std::string> parameters);

}  // namespace trireme::graph
