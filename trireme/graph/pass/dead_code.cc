#include "trireme/graph/pass/passes.h"

#include <fmt/format.h>

namespace trireme::graph {
namespace {

Result<std::vector<std::pair<std::string, Value>>> wanted_outputs(const Graph& graph,
                                                                  std::span<const std::string> keep) {
  if (keep.empty()) return graph.outputs();
  std::vector<std::pair<std::string, Value>> wanted;
  for (const std::string& name : keep) {
    const std::optional<Value> v = graph.find_output(name);
    if (!v) {
      std::vector<std::string> names;
      for (const auto& [own, value] : graph.outputs()) names.push_back(own);
      return error(Code::kNotFound, "[graph] the graph has no output '{}'; its outputs are: {}", name,
                   fmt::join(names, ", "));
    }
    wanted.emplace_back(name, *v);
  }
  return wanted;
}

}  // namespace

Result<Graph> eliminate_dead_code(const Graph& graph, std::span<const std::string> keep_outputs) {
  TR_ASSIGN_OR_RETURN(const auto wanted, wanted_outputs(graph, keep_outputs));
  std::vector<bool> live(static_cast<std::size_t>(graph.size()), false);
  for (const auto& [name, v] : wanted) live[static_cast<std::size_t>(v.node)] = true;
  for (std::int32_t i = graph.size() - 1; i >= 0; --i) {
    if (!live[static_cast<std::size_t>(i)]) continue;
    for (const Value v : graph.node(i).inputs) live[static_cast<std::size_t>(v.node)] = true;
    for (const std::int32_t c : graph.node(i).control) live[static_cast<std::size_t>(c)] = true;
  }

  Graph kept;
  std::vector<std::int32_t> moved(static_cast<std::size_t>(graph.size()), -1);
  const auto at = [&](std::int32_t id) { return moved[static_cast<std::size_t>(id)]; };
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    if (!live[static_cast<std::size_t>(i)]) continue;
    const Node& node = graph.node(i);
    std::vector<Value> inputs;
    for (const Value v : node.inputs) inputs.push_back({at(v.node), v.index});
    TR_ASSIGN_OR_RETURN(const Value v, kept.add_like(node, std::move(inputs)));
    moved[static_cast<std::size_t>(i)] = v.node;
    for (const std::int32_t c : node.control) kept.add_control(at(c), v.node);
  }
  for (const auto& [name, v] : wanted) kept.set_output(name, {at(v.node), v.index});
  return kept;
}

extern const PassRow kDeadCode{
    .name = "dead_code",
    .doc = "Leaves out nodes that no wanted output needs.",
    .exactness = Exactness::kExact,
    .run = [](const Graph& g, const PassOptions& o) { return eliminate_dead_code(g, o.keep_outputs); }};

}  // namespace trireme::graph
