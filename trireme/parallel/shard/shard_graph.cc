#include "trireme/parallel/shard/shard_graph.h"

#include <algorithm>
#include <limits>

#include "trireme/op/ops.h"
#include "trireme/parallel/shard/axis_collective.h"
#include "trireme/parallel/shard/axis_writer.h"
#include "trireme/parallel/shard/labeling.h"
#include "trireme/parallel/shard/node_options.h"

namespace trireme::parallel {
namespace {

using graph::Value;
using op::AxisCut;
using op::LayoutOption;

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::string_view kGradient = "grad:";

// The variable that an output is the gradient of; null where it is none.
std::optional<Value> variable_of(const graph::Graph& graph, std::string_view output) {
  if (!output.starts_with(kGradient)) return std::nullopt;
  return graph.find_variable(output.substr(kGradient.size()));
}

class Chooser {
 public:
  Chooser(const graph::Graph& graph, const ShardRequest& request)
      : graph_(graph), request_(request), options_(graph, request.axis) {}

  Result<AxisLayouts> run() {
    for (std::int32_t id = 0; id < graph_.size(); ++id) TR_RETURN_IF_ERROR(add_node(id));
    for (std::int32_t id = 0; id < graph_.size(); ++id) add_edges(id);
    for (const auto& [name, v] : graph_.outputs()) add_output(name, v);
    const Labeling::Outcome outcome = problem_.solve();
    if (outcome.cost == kInfinite)
      return error(
          Code::kInvalid,
          "[parallel] no layout of the graph on axis '{}' of {} keeps all that was asked for; leave a pin "
          "of parallel.layouts out, or use another style",
          request_.axis.name, parts());
    return layouts(outcome);
  }

 private:
  int parts() const { return request_.axis.num_parts; }

  Status add_node(std::int32_t id) {
    std::vector<double> costs;
    for (const LayoutOption& option : options_.of(id)) costs.push_back(cost_of_option(id, option));
    const bool none = std::all_of(costs.begin(), costs.end(), [](double c) { return c == kInfinite; });
    if (none)
      return error(Code::kInvalid,
                   "[parallel] '{}' ({}) cannot lie on axis '{}' of {} as asked for; it can be: {}; use a "
                   "smaller axis, or another style or pin",
                   graph_.node(id).name, graph_.node(id).outputs[0].to_string(), request_.axis.name, parts(),
                   known_cuts(id));
    problem_.add_variable(std::move(costs));
    return {};
  }

  std::string known_cuts(std::int32_t id) const {
    std::string known;
    for (const LayoutOption& option : options_.of(id))
      known += (known.empty() ? "" : ", ") + option.outputs[0].to_text();
    return known;
  }

  double cost_of_option(std::int32_t id, const LayoutOption& option) const {
    const graph::Node& node = graph_.node(id);
    if (request_.allowed && !request_.allowed(node, option)) return kInfinite;
    if (node.def == &op::kVariable) return cost_of_variable(node, option.outputs[0]);
    return option.rewritten ? rewritten_seconds(id, option) : local_seconds(node, option);
  }

  double cost_of_variable(const graph::Node& node, const AxisCut& cut) const {
    return request_.seconds_per_held_byte *
           static_cast<double>(part_type(cut, node.outputs[0], parts(), 0).num_bytes());
  }

  // What position 0 computes, which has the largest parts.
  double local_seconds(const graph::Node& node, const LayoutOption& option) const {
    if (node.def->has(op::kFeed) || node.def->has(op::kHostOp)) return 0;
    std::vector<TensorType> in, out;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      in.push_back(part_type(option.inputs[i], graph_.type(node.inputs[i]), parts(), 0));
    for (std::size_t k = 0; k < node.outputs.size(); ++k)
      out.push_back(part_type(option.outputs[k], node.outputs[k], parts(), 0));
    cost::OpCost cost;
    if (node.def->cost != nullptr) cost = node.def->cost(in, out, part_attrs(node, option, parts(), 0));
    return seconds_of(cost);
  }

  double seconds_of(const cost::OpCost& cost) const {
    return to_seconds(compute_time(cost, request_.costs.machine, request_.costs.threads));
  }

  // What the rule adds for position 0, in a graph of its own.
  double rewritten_seconds(std::int32_t id, const LayoutOption& option) const {
    const graph::Node& node = graph_.node(id);
    graph::Graph alone;
    std::vector<Value> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorType& t = graph_.type(node.inputs[i]);
      const std::vector<std::int64_t> dims(t.shape.dims().begin(), t.shape.dims().end());
      inputs.push_back(*alone.add(op::kVariable, {},
                                  {{"name", fmt::format("in{}", i)}, {"dtype", t.dtype}, {"shape", dims}}));
    }
    const auto whole = alone.add(*node.def, inputs, node.attrs);
    if (!whole.ok()) return kInfinite;
    AxisWriter writer(alone, request_.axis, 0);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      TR_CHECK(writer.put(inputs[i].node, {{}, {option.inputs[i]}}).ok(), "an input of '{}'", node.name);
    if (!writer.put(whole->node, option).ok()) return kInfinite;
    double seconds = 0;
    for (std::int32_t i = 0; i < writer.to().size(); ++i) {
      const graph::Node& n = writer.to().node(i);
      if (n.def->has(op::kFeed)) continue;
      seconds += is_collective_along(n, request_.axis.name)
                     ? cost_of(collective_of(writer.to(), n, parts()), request_.costs).seconds
                     : seconds_of(node_cost(writer.to(), i));
    }
    return seconds;
  }

  void add_edges(std::int32_t id) {
    const graph::Node& node = graph_.node(id);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      add_move(node.inputs[i], id, [&](const LayoutOption& o) { return o.inputs[i]; });
  }

  // What it costs to bring a value to where another node wants it.
  template <typename Wanted>
  void add_move(Value v, std::int32_t reader, const Wanted& wanted) {
    const auto& makes = options_.of(v.node);
    const auto& reads = options_.of(reader);
    std::vector<double> costs;
    for (const LayoutOption& from : makes)
      for (const LayoutOption& to : reads)
        costs.push_back(move_seconds(v, from.outputs[static_cast<std::size_t>(v.index)], wanted(to)));
    problem_.add_pair(v.node, reader, std::move(costs));
  }

  double move_seconds(Value v, const AxisCut& from, const AxisCut& to) {
    return reshard_seconds(from, to, graph_.type(v), parts(), request_.costs);
  }

  void add_output(std::string_view name, Value v) {
    const auto variable = variable_of(graph_, name);
    if (variable && variable->node != v.node) {
      add_move(v, variable->node, [](const LayoutOption& o) { return o.outputs[0]; });
      return;
    }
    std::vector<double> costs;
    for (const LayoutOption& from : options_.of(v.node))
      costs.push_back(move_seconds(v, from.outputs[static_cast<std::size_t>(v.index)], op::kReplicate));
    problem_.add_costs(v.node, costs);
  }

  AxisLayouts layouts(const Labeling::Outcome& outcome) const {
    AxisLayouts out;
    out.axis = request_.axis;
    out.seconds = outcome.cost;
    out.is_best = outcome.is_exact;
    for (std::int32_t id = 0; id < graph_.size(); ++id)
      out.options.push_back(
          options_.of(id)[static_cast<std::size_t>(outcome.labels[static_cast<std::size_t>(id)])]);
    out.outputs = output_cuts(graph_, out.options);
    return out;
  }

  const graph::Graph& graph_;
  const ShardRequest& request_;
  const NodeOptions options_;
  Labeling problem_;
};

}  // namespace

std::vector<AxisCut> output_cuts(const graph::Graph& graph, const std::vector<LayoutOption>& options) {
  std::vector<AxisCut> cuts;
  for (const auto& [name, v] : graph.outputs()) {
    const auto variable = variable_of(graph, name);
    cuts.push_back(variable ? options[static_cast<std::size_t>(variable->node)].outputs[0]
                            : AxisCut(op::kReplicate));
  }
  return cuts;
}

AxisCut AxisLayouts::cut_of(const graph::Graph& graph, std::string_view variable) const {
  const auto v = graph.find_variable(variable);
  return v ? options[static_cast<std::size_t>(v->node)].outputs[0] : AxisCut(op::kReplicate);
}

Result<AxisLayouts> choose_layouts(const graph::Graph& graph, const ShardRequest& request) {
  return Chooser(graph, request).run();
}

Result<graph::Graph> shard_graph(const graph::Graph& graph, const AxisLayouts& layouts, int position) {
  AxisWriter writer(graph, layouts.axis, position);
  for (std::int32_t id = 0; id < graph.size(); ++id)
    TR_RETURN_IF_ERROR(writer.put(id, layouts.options[static_cast<std::size_t>(id)]));
  return writer.finish(layouts.outputs);
}

StepCost exchanges_of(const graph::Graph& part, const ShardAxis& axis, const AxisCosts& costs) {
  StepCost all;
  for (std::int32_t id = 0; id < part.size(); ++id) {
    const graph::Node& node = part.node(id);
    if (!is_collective_along(node, axis.name)) continue;
    const StepCost one = cost_of(collective_of(part, node, axis.num_parts), costs);
    all.seconds += one.seconds;
    all.bytes += one.bytes;
  }
  return all;
}

namespace {

// A collective that a rule has written, which the node tells itself.
ReshardRow row_of_rule(const graph::Node& node) {
  ReshardRow row;
  row.node = node.attrs.get_text("label");
  if (node.def == &op::kHaloExchange) {
    row.from = row.to = AxisCut(static_cast<int>(node.attrs.get_int("dim")));
  } else if (node.def == &op::kAllreduce) {
    row.from = AxisCut(node.attrs.get_text("reduction") == "max" ? op::kPartialMax : op::kPartial);
  }
  return row;
}

}  // namespace

Result<std::vector<ReshardRow>> reshards_of(const graph::Graph& graph, const AxisLayouts& layouts,
                                            const AxisCosts& costs) {
  const int parts = layouts.axis.num_parts;
  AxisWriter writer(graph, layouts.axis, 0);
  for (std::int32_t id = 0; id < graph.size(); ++id)
    TR_RETURN_IF_ERROR(writer.put(id, layouts.options[static_cast<std::size_t>(id)]));
  TR_ASSIGN_OR_RETURN(const graph::Graph part, writer.finish(layouts.outputs));
  std::vector<ReshardRow> rows;
  for (std::int32_t id = 0; id < part.size(); ++id) {
    const graph::Node& node = part.node(id);
    const auto move = writer.moves().find(id);
    const bool travels = is_collective_along(node, layouts.axis.name);
    if (!travels && move == writer.moves().end()) continue;
    ReshardRow row;
    if (move == writer.moves().end()) {
      row = row_of_rule(node);
    } else {
      const PlacedMove& m = move->second;
      row = {graph.node(m.whole.node).name, m.from, m.to};
    }
    row.collective = node.def->name;
    if (travels) {
      const AxisCollective collective = collective_of(part, node, parts);
      row.seconds = cost_of(collective, costs).seconds;
      row.bytes = bytes_sent(collective, 0);
    } else {
      row.seconds = cost_of(ReshardStep::kTakePart, graph.type(move->second.whole), parts, costs).seconds;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace trireme::parallel
