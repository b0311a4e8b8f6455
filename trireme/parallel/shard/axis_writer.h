// AxisWriter: writes the graph of one position of an axis, node after node.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/parallel/shard/reshard.h"

namespace trireme::parallel {

// The attributes of a node at the shapes of a position.
graph::Attrs part_attrs(const graph::Node& node, const op::LayoutOption& option, int num_parts, int position);

// What a node of a position that moves a value between layouts is for.
struct PlacedMove {
  graph::Value whole;
  op::AxisCut from{op::kReplicate}, to{op::kReplicate};
};

class AxisWriter {
 public:
  AxisWriter(const graph::Graph& from, ShardAxis axis, int position);

  const ShardAxis& axis() const { return axis_; }
  int position() const { return position_; }
  const graph::Graph& from() const { return rewriter_.from(); }
  const graph::Graph& to() const { return rewriter_.to(); }
  // By the node of to() that a value between layouts goes through. Collectives of rules are not among them.
  const std::map<std::int32_t, PlacedMove>& moves() const { return moves_; }

  // What this position computes instead of a node; all its inputs were put before.
  Status put(std::int32_t id, const op::LayoutOption& option);
  // A value of a node that was put, in another layout. It is moved once for all who ask.
  Result<graph::Value> in_layout(graph::Value whole, const op::AxisCut& to);
  // Sets the outputs: each in its layout, as in the order of the graph's.
  Result<graph::Graph> finish(const std::vector<op::AxisCut>& outputs);

  // For rules (op::CutBuilder): a node that is made once for equal inputs and attributes.
  Result<graph::Value> add(const graph::OpDef& def, std::vector<graph::Value> inputs, graph::Attrs attrs,
                           std::string_view name);
  Result<graph::Value> position_value();
  // Attributes of a collective along the axis.
  graph::Attrs collective_attrs(std::string_view label, graph::Attrs own) const;

 private:
  struct Placed {
    graph::Value value;
    op::AxisCut cut{op::kReplicate};
  };
  void note_moves(std::int32_t first, const PlacedMove& move);
  Result<graph::Value> step(ReshardStep step, graph::Value v, const TensorType& whole,
                            const op::AxisCut& from, const op::AxisCut& to, const std::string& name);
  Result<graph::Value> along_blocks(const graph::OpDef& def, std::vector<graph::Value> inputs,
                                    const op::AxisCut& cut, std::int64_t size, graph::Attrs attrs,
                                    const std::string& name);
  Result<graph::Value> all_to_all(graph::Value v, const TensorType& whole, int from, int to,
                                  const std::string& name);
  Status put_rewritten(std::int32_t id, const op::LayoutOption& option, std::vector<graph::Value> inputs);

  graph::Rewriter rewriter_;
  const ShardAxis axis_;
  const int position_;
  graph::ValueMap<std::vector<Placed>> placed_;  // the first is as the node gives it
  std::map<std::string, graph::Value> made_;     // by op, inputs, attributes
  std::map<std::int32_t, PlacedMove> moves_;
};

}  // namespace trireme::parallel
