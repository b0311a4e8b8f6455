// The graphs of all positions of an axis, run node after node in lock step on reference kernels. Collectives
// are plain code over the tensors of all positions. And a graph in f64, so that rounding hides nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/graph/graph.h"
#include "trireme/parallel/shard/chunk.h"

namespace trireme::parallel::testing {

using Tensors = std::map<std::string, Tensor>;

// The same graph with f64 in place of f32 wherever its ops take it; the sample weights stay f32.
Result<graph::Graph> in_f64(const graph::Graph& graph);

// A value for every input and variable of the graph, drawn from its name.
Tensors made_up(const graph::Graph& graph, int below);

// All outputs by name.
Result<Tensors> run_whole(const graph::Graph& graph, const Tensors& fed);
// The outputs of every position. Variables are cut from the whole ones as `layouts` say. Positions meet in
// the order of their collectives.
Result<std::vector<Tensors>> run_positions(const graph::Graph& whole, const AxisLayouts& layouts,
                                           const Tensors& fed, const ChunkRequest& chunks = {});
// What a position has of a tensor.
Tensor part_of(const Tensor& whole, const op::AxisCut& cut, int num_parts, int position);

}  // namespace trireme::parallel::testing
