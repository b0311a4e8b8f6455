// Styles: named ways to cut a model along an axis, and pins, which say how tensors of a name lie. Pure.
//
// A style or a pin only forbids options; what is left is chosen by price. The rows are in style.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/parallel/shard/shard_graph.h"

namespace trireme::parallel {

// What reads a variable.
struct VariableUse {
  bool by_convolution = false;
  bool by_product = false;  // a matmul, or rows of a table
  bool per_expert = false;  // a matrix or a bias for each of a batch of products
  int rows = -1;            // the dimension of rows of an image, where it has values for each of its points
  // Where a product reads a flattened image: how the variable lies where the image is cut in rows or columns.
  std::vector<op::AxisCut> by_sides = {};
};

// What there is to cut in a model along an axis, as styles ask for it.
struct ModelFacts {
  bool convolutions = false, products = false, experts = false;  // that have weights
  bool sequences = false;                                        // ops of texts and other sequences
  bool weights = false;  // a matrix, table or filter that positions can have parts of
  bool samples = false;  // of the inputs
  bool images = false;   // in height or width
  bool steps = false;    // the middle dimension of three: tokens of a text
};

struct StyleRow {
  const char* name;
  const char* doc;
  // Whether a variable of at least two dimensions may lie so. `can_be_cut`: some cut of it fits.
  bool (*allows)(const VariableUse& use, const op::AxisCut& cut, bool can_be_cut);
  // Whether any other node may be cut so over so many positions; null: yes. `has_rule`: the rule of its op
  // (OpDef::cut) can cut it.
  bool (*allows_node)(const graph::Node& node, const op::LayoutOption& option, int num_parts,
                      bool has_rule) = nullptr;
  // Whether the style fits a model; null: it fits all.
  bool (*fits)(const ModelFacts& facts) = nullptr;
  const char* lacks = "";  // what a model lacks that it does not fit, in words, with what to do
};
std::span<const StyleRow> style_table();
// kInvalid lists the names that exist.
Result<const StyleRow*> find_style(std::string_view name);

// "fc*/weight: model=0": tensors whose names match lie so on that axis. `*` is any text.
struct LayoutPin {
  std::string pattern, axis;
  op::AxisCut cut{op::kReplicate};
};
// Behind the axis a dimension, a dimension in blocks ("1x3") of units that stay together ("1x24u100"), or
// "replicate".
Result<LayoutPin> parse_pin(std::string_view text);
bool matches(std::string_view pattern, std::string_view name);

// Puts a style and pins of the axis into a request. kInvalid: the style does not fit the graph; a pin matches
// no variable of it, or none of its size can lie so.
Status restrict_to(const StyleRow* style, const std::vector<LayoutPin>& pins, const graph::Graph& graph,
                   ShardRequest& request);

// What of that is about nodes other than variables: of a graph that is part of one that the style fits.
void restrict_nodes(const StyleRow* style, const graph::Graph& graph, ShardRequest& request);

}  // namespace trireme::parallel
