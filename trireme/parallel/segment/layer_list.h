// LayerList: the layers of a forward graph in the order in which they are computed. A model is cut in its
// depth between two of them, and nowhere else. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/graph/graph.h"

namespace trireme::parallel {

// A layer is what was built in one outermost scope that has variables, with what was built behind it without
// any: train and evaluation graphs have the same layers.
struct Layer {
  std::string name;        // "block3"
  std::int32_t first = 0;  // node of the graph
  // For forward and backward, by rates that are the same everywhere: only their ratios mean something.
  double seconds = 0;
};

struct LayerList {
  std::vector<Layer> layers;
  // Per node of the graph: its layer; -1: it follows from variables and constants alone, so whoever needs it
  // computes it.
  std::vector<std::int32_t> layer_of;
};
// At least one layer.
LayerList layers_of(const graph::Graph& forward);

// The layers that begin a segment, the first one left out. kInvalid: not so many layers.
struct Cuts {
  std::vector<std::int32_t> layers;  // ascending, above 0
  std::int32_t segments() const { return static_cast<std::int32_t>(layers.size()) + 1; }
};
// The slowest segment is as fast as can be; `speeds`: of who computes each of them, in order; empty: equal.
Result<Cuts> balanced_cuts(const LayerList& list, std::int32_t segments, std::span<const double> speeds = {});
// In front of the layers of these names, in their order. kInvalid tells a name that is no layer, or one
// inside of a layer.
Result<Cuts> named_cuts(const graph::Graph& forward, const LayerList& list,
                        std::span<const std::string> names);

}  // namespace trireme::parallel
