// Edges of a graph by name, and graphs cut open at an edge. Pure.
//
// An edge is named by its node and output: "conv1/relu:0"; without a number output 0 is meant. Inputs,
// variables and outputs of the graph are edges too and go by their own names.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "trireme/graph/graph.h"

namespace trireme::exec {

// The first of: an input, a variable, a node (with or without ":k"), an output of that name. kNotFound lists
// nodes that are called alike.
Result<graph::Value> find_edge(const graph::Graph& graph, std::string_view name);
// The same with outputs first: what a caller means who fetches.
Result<graph::Value> find_fetch(const graph::Graph& graph, std::string_view name);

// From now on edge `at` is fed: whoever read it reads a new input `input`.
struct Cut {
  graph::Value at;
  std::string input;
};

// The graph with an input in the place of each cut edge. Nodes that nobody needs any more stay: dead code
// elimination takes them. Inputs cannot be cut (they are fed as they are), nor variables that the graph
// changes.
Result<graph::Graph> cut_at(const graph::Graph& graph, std::span<const Cut> cuts);

}  // namespace trireme::exec
