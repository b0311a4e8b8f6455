#include "trireme/parallel/shard/node_options.h"

#include <algorithm>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"

namespace trireme::parallel {
namespace {

using op::AxisCut;
using op::LayoutOption;

constexpr std::size_t kMostOptions = 24, kMostGrains = 6;  // grains of one size
constexpr int kRefinements = 4;                            // ops that a grain travels over per round: all

bool stays_whole(const graph::Node& node) {
  const op::OpDef& def = *node.def;
  if (&def == &op::kVariable) return false;
  return def.has(op::kFeed) || def.has(op::kStateful) || def.has(op::kMutates) || !node.forms.is_plain();
}

LayoutOption whole_option(const graph::Node& node) {
  return {std::vector<AxisCut>(node.inputs.size(), op::kReplicate),
          std::vector<AxisCut>(node.outputs.size(), op::kReplicate)};
}

bool same(const LayoutOption& a, const LayoutOption& b) {
  return a.inputs == b.inputs && a.outputs == b.outputs;
}

}  // namespace

template <typename Fn>
void NodeOptions::for_cut_operands(std::int32_t id, const LayoutOption& option, const Fn& fn) const {
  const graph::Node& node = graph_.node(id);
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (option.inputs[i].cuts()) fn(option.inputs[i], graph_.type(node.inputs[i]).shape);
  for (std::size_t k = 0; k < node.outputs.size(); ++k)
    if (option.outputs[k].cuts()) fn(option.outputs[k], node.outputs[k].shape);
}

std::vector<LayoutOption> NodeOptions::offered(std::int32_t id) const {
  const graph::Node& node = graph_.node(id);
  if (stays_whole(node)) return {};
  return op::layout_options(*node.def, graph::input_types(graph_, node), node.outputs, node.attrs);
}

// Whether it is new and fits.
bool NodeOptions::add(std::int32_t id, LayoutOption option) {
  const graph::Node& node = graph_.node(id);
  std::vector<LayoutOption>& own = options_[static_cast<std::size_t>(id)];
  bool good = own.size() < kMostOptions;
  for_cut_operands(id, option, [&](const AxisCut& cut, const Shape& whole) {
    good = good && fits(cut, whole, axis_.num_parts);
  });
  if (!good) return false;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    option.inputs[i] = shortest(option.inputs[i], graph_.type(node.inputs[i]).shape, axis_.num_parts);
  for (std::size_t k = 0; k < node.outputs.size(); ++k)
    option.outputs[k] = shortest(option.outputs[k], node.outputs[k].shape, axis_.num_parts);
  if (std::any_of(own.begin(), own.end(), [&](const LayoutOption& o) { return same(o, option); }))
    return false;
  note_grains(id, option);
  own.push_back(std::move(option));
  return true;
}

void NodeOptions::note_grains(std::int32_t id, const LayoutOption& option) {
  for_cut_operands(id, option, [&](const AxisCut& cut, const Shape& whole) {
    std::set<Grain>& of_size = grains_[whole[cut.dim]];
    if ((cut.blocks > 1 || cut.unit > 1) && of_size.size() < kMostGrains)
      of_size.insert({cut.blocks, cut.unit});
  });
}

// Options in the grains of their dimensions' sizes; whether there is a new one.
bool NodeOptions::refine(std::int32_t id) {
  std::vector<LayoutOption> finer;
  for (const LayoutOption& option : options_[static_cast<std::size_t>(id)])
    for_cut_operands(id, option, [&](const AxisCut& cut, const Shape& whole) {
      const auto found = grains_.find(whole[cut.dim]);
      if (found == grains_.end()) return;
      for (const Grain& grain : found->second) {
        if (grain.blocks % cut.blocks != 0 || grain.unit % cut.unit != 0) continue;
        if (auto made = op::refined(option, grain.blocks / cut.blocks, grain.unit / cut.unit))
          finer.push_back(std::move(*made));
      }
    });
  bool changed = false;
  for (LayoutOption& option : finer) changed = add(id, std::move(option)) || changed;
  return changed;
}

NodeOptions::NodeOptions(const graph::Graph& graph, const ShardAxis& axis)
    : graph_(graph), axis_(axis), options_(static_cast<std::size_t>(graph.size())) {
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    options_[static_cast<std::size_t>(id)].push_back(whole_option(graph.node(id)));
    for (LayoutOption& option : offered(id)) add(id, std::move(option));
  }
  bool changed = true;
  for (int round = 0; changed && round < kRefinements; ++round) {
    changed = false;
    for (std::int32_t id = 0; id < graph.size(); ++id) changed = refine(id) || changed;
  }
}

}  // namespace trireme::parallel
