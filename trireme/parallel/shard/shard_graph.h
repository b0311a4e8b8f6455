// Sharding: a graph cut over the positions of one axis, Graph to Graph, before any fusion.
//
// Every node takes one of its options (node_options.h); every value is moved from the layout in which it is
// made to those in which it is read (reshard.h). Which option costs least is decided for the whole graph at
// once (labeling.h). The graph of a position has local shapes and collectives that name the axis; the next
// axis sees these as ordinary ops. Outputs "grad:<variable>" leave as the variable lies, all others whole.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/graph/graph.h"
#include "trireme/parallel/shard/reshard.h"

namespace trireme::parallel {

// How one axis lays a graph out.
struct AxisLayouts {
  ShardAxis axis;
  std::vector<op::LayoutOption> options;  // per node
  std::vector<op::AxisCut> outputs;       // per named output
  double seconds = 0;                     // computation and exchanges of one position, one after the other
  bool is_best = true;                    // nothing cheaper exists under these costs
  // How a variable of the graph lies.
  op::AxisCut cut_of(const graph::Graph& graph, std::string_view variable) const;
};

// How the named outputs of a graph leave where its nodes are cut so.
std::vector<op::AxisCut> output_cuts(const graph::Graph& graph, const std::vector<op::LayoutOption>& options);

struct ShardRequest {
  ShardAxis axis;
  AxisCosts costs;
  double seconds_per_held_byte = 0;  // what memory of variables is worth
  // Options that may be taken, of variables and of all other nodes; empty: all of them.
  std::function<bool(const graph::Node& node, const op::LayoutOption& option)> allowed = {};
};

// kInvalid names the node that has no allowed option.
Result<AxisLayouts> choose_layouts(const graph::Graph& graph, const ShardRequest& request);

// The input, i64[], by which a run tells a graph its position: "position:model".
std::string position_input(const ShardAxis& axis);

// The graph of a position.
Result<graph::Graph> shard_graph(const graph::Graph& graph, const AxisLayouts& layouts, int position);

// What the collectives along an axis take in the graph of a position, one after the other, and the bytes that
// it sends.
StepCost exchanges_of(const graph::Graph& part, const ShardAxis& axis, const AxisCosts& costs);

// What the graph of position 0 does to have a value in another layout, and what rules exchange: the edges of
// images (from and to are the same cut), sums within a normalization.
struct ReshardRow {
  std::string node;  // what makes the value, or what is computed by the rule
  op::AxisCut from{op::kReplicate}, to{op::kReplicate};
  std::string_view collective = {};
  double bytes = 0, seconds = 0;  // bytes that position 0 sends
};
// In the order of the graph; every collective along the axis once.
Result<std::vector<ReshardRow>> reshards_of(const graph::Graph& graph, const AxisLayouts& layouts,
                                            const AxisCosts& costs);

}  // namespace trireme::parallel
