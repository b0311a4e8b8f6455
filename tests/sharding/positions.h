// The graphs of all positions of an axis, or of all ranks of a mesh, run node after node in lock step on
// reference kernels. Collectives are plain code over the tensors of all positions. And a graph in f64, so
// that rounding hides nothing.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trireme/graph/graph.h"
#include "trireme/parallel/mesh.h"
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

// A graph cut along the axes of a mesh, one after the other: an axis cuts what the axes before it left to a
// rank, exchanges included.
struct CutOverMesh {
  // How one axis lays out the variables and outputs of the graph that it found.
  struct AxisOutcome {
    std::map<std::string, op::AxisCut> variables;
    std::vector<op::AxisCut> outputs;
  };
  Mesh mesh;
  std::vector<graph::Graph> graphs;              // by rank
  std::vector<std::vector<AxisOutcome>> chosen;  // by rank, then axis
};
// Slow machines on links that cost next to nothing: whatever can be cut is cut, however small.
AxisCosts costs_that_cut();
// What may be chosen for a graph, in its request. It has costs_that_cut().
using Restriction = std::function<Status(const graph::Graph&, ShardRequest&)>;
// Every axis is laid out once, for the rank with the smallest parts, and all ranks are cut so.
Result<CutOverMesh> cut_over(const graph::Graph& whole, const Mesh& mesh, const Restriction& restriction);
// The outputs of every rank.
Result<std::vector<Tensors>> run_ranks(const CutOverMesh& cut, const Tensors& fed);
// Every rank has its part of every output.
void expect_ranks_give(const CutOverMesh& cut, const std::vector<Tensors>& got, const Tensors& expected,
                       double tolerance = 1e-12);
// Relative to the element where it is above 1. Of f32: at least 1e-6.
void expect_close(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what);

// What a position has of a tensor.
Tensor part_of(const Tensor& whole, const op::AxisCut& cut, int num_parts, int position);

}  // namespace trireme::parallel::testing
