#include "trireme/parallel/shard/sample_dims.h"

#include <algorithm>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"

namespace trireme::parallel {
namespace {

using graph::Graph;
using graph::Node;
using op::AxisCut;
using op::LayoutOption;

int dim_of(const Node& node, const char* attr, int rank) {
  const auto dim = static_cast<int>(node.attrs.get_int(attr));
  return dim < 0 ? dim + rank : dim;
}

// Operands that are cut although nobody knows that samples lie there.
std::size_t num_untracked(const LayoutOption& option, const std::vector<SampleDim>& inputs) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].is_there() && option.inputs[i].cuts()) ++count;
  return count;
}

// It needs no more than its samples, whichever they are.
bool is_free_of_indices(const Node& node, const LayoutOption& option) {
  const op::OpDef& def = *node.def;
  const bool exchanges = def.has(op::kHostOp) && def.family == "comm";
  return !option.rewritten && node.forms.is_plain() && node.control.empty() && !def.has(op::kMutates) &&
         !def.has(op::kFeed) && (exchanges || !def.has(op::kStateful));
}

}  // namespace

SampleDims::SampleDims(const Graph& first, const ShardAxis& axis)
    : moves_(static_cast<std::size_t>(first.size()), SampleMove::kNone),
      options_(static_cast<std::size_t>(first.size())) {
  const bool found = find_batch(first);
  own_ = op::part_sizes(batch_, axis.num_parts);
  for (std::int32_t id = 0; id < first.size(); ++id) {
    dims_.emplace_back(first.node(id).outputs.size());
    if (found) put(first, id, axis);
  }
}

bool SampleDims::find_batch(const Graph& graph) {
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (node.def != &op::kInput || node.outputs[0].shape.rank() == 0) continue;
    const std::int64_t size = node.outputs[0].shape[0];
    if (batch_ != 0 && size != batch_) return false;
    batch_ = size;
  }
  return batch_ > 0;
}

std::int64_t SampleDims::unit_of(std::int64_t size, bool own) const {
  const std::int64_t samples = own ? own_[0] : batch_;
  return samples > 0 && size % samples == 0 ? size / samples : 0;
}

bool SampleDims::is_parts(const std::vector<std::int64_t>& sizes, std::int64_t unit) const {
  for (std::size_t p = 0; p < own_.size(); ++p)
    if ((sizes.empty() ? own_[0] * unit : sizes[p]) != own_[p] * unit) return false;
  return true;
}

// A collective or take_part along the samples' dimension; anything else is none of these.
bool SampleDims::put_move(const Graph& graph, std::int32_t id, const ShardAxis& axis) {
  const Node& node = graph.node(id);
  const bool takes = node.def == &op::kTakePart;
  if (!takes && (node.def->family != "comm" || node.def->num_inputs != 1)) return false;
  if (!takes && node.attrs.get_text("axis") != axis.name) return false;
  const SampleDim in = of(node.inputs[0]);
  const int rank = graph.type(node.inputs[0]).shape.rank();
  const bool turns = node.def == &op::kAllToAll;
  if (!turns && !takes && node.def != &op::kAllgather && node.def != &op::kReduceScatter) return false;
  const int from = turns                         ? dim_of(node, "from", rank)
                   : node.def == &op::kAllgather ? dim_of(node, "dim", rank)
                                                 : -1;
  const int to = turns                         ? dim_of(node, "to", rank)
                 : node.def == &op::kAllgather ? -1
                                               : dim_of(node, "dim", rank);
  if (in.dim != from && in.dim != to) return false;
  const bool gathers = in.dim == from;
  const std::vector<std::int64_t>& sizes = node.attrs.get_ints(!turns    ? "sizes"
                                                               : gathers ? "sizes_from"
                                                                         : "sizes_to");
  if (gathers != in.own || !is_parts(sizes, in.unit)) return true;  // from here on nobody knows
  moves_[static_cast<std::size_t>(id)] = gathers ? SampleMove::kGather : SampleMove::kScatter;
  dims_.back()[0] = {in.dim, in.unit, !gathers};
  LayoutOption option{std::vector<AxisCut>(node.inputs.size(), op::kReplicate), {in.dim}};
  option.inputs[0] = in.dim;
  options_[static_cast<std::size_t>(id)] = std::move(option);
  return true;
}

// Whether the option cuts what is known to have samples there, and all else where it could have them.
bool SampleDims::fits(const Graph& graph, std::int32_t id, const LayoutOption& option) const {
  const Node& node = graph.node(id);
  bool own = false;
  for (const graph::Value v : node.inputs)
    if (of(v).is_there()) own = of(v).own;
  const auto takes = [&](const AxisCut& cut, const TensorType& type) {
    const std::int64_t unit = cut.dim < type.shape.rank() ? unit_of(type.shape[cut.dim], own) : 0;
    return cut.blocks == 1 && unit > 0 && unit % cut.unit == 0;
  };
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const SampleDim in = of(node.inputs[i]);
    const AxisCut& cut = option.inputs[i];
    if (in.is_there() && (in.dim != cut.dim || in.own != own)) return false;
    if (cut == op::kReplicate) continue;
    if (!cut.cuts() || !takes(cut, graph.type(node.inputs[i]))) return false;
  }
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    const AxisCut& cut = option.outputs[k];
    if (cut == op::kPartial) continue;
    if (!cut.cuts() || !takes(cut, node.outputs[k])) return false;
  }
  return true;
}

void SampleDims::put(const Graph& graph, std::int32_t id, const ShardAxis& axis) {
  const Node& node = graph.node(id);
  if (node.def == &op::kInput && node.outputs[0].shape.rank() > 0) {
    dims_.back()[0] = {0, 1, false};
    return;
  }
  std::vector<SampleDim> inputs;
  for (const graph::Value v : node.inputs) inputs.push_back(of(v));
  if (std::none_of(inputs.begin(), inputs.end(), [](const SampleDim& d) { return d.is_there(); })) return;
  if (put_move(graph, id, axis)) return;
  const auto offered =
      op::layout_options(*node.def, graph::input_types(graph, node), node.outputs, node.attrs);
  const LayoutOption* best = nullptr;
  for (const LayoutOption& option : offered) {
    if (!fits(graph, id, option)) continue;
    const auto rank = [&](const LayoutOption& o) { return std::pair(o.rewritten, num_untracked(o, inputs)); };
    if (best == nullptr || rank(option) < rank(*best)) best = &option;
  }
  if (best == nullptr) return;
  bool own = false;
  for (const SampleDim& in : inputs)
    if (in.is_there()) own = in.own;
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    const AxisCut& cut = best->outputs[k];
    if (cut.cuts()) dims_.back()[k] = {cut.dim, unit_of(node.outputs[k].shape[cut.dim], own), own};
  }
  if (is_free_of_indices(node, *best)) options_[static_cast<std::size_t>(id)] = *best;
}

}  // namespace trireme::parallel
