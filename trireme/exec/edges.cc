#include "trireme/exec/edges.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "trireme/op/ops.h"

namespace trireme::exec {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

constexpr std::size_t kMaxSuggestions = 6;

std::optional<std::int32_t> find_node(const Graph& graph, std::string_view name) {
  for (std::int32_t i = 0; i < graph.size(); ++i)
    if (graph.node(i).name == name) return i;
  return std::nullopt;
}

// "conv1/relu:1" -> ("conv1/relu", 1). No number: nothing.
std::optional<std::pair<std::string_view, std::int32_t>> split_index(std::string_view name) {
  const std::size_t colon = name.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == name.size()) return std::nullopt;
  std::int32_t index = -1;
  const char* end = name.data() + name.size();
  const auto [stop, failure] = std::from_chars(name.data() + colon + 1, end, index);
  if (failure != std::errc() || stop != end || index < 0) return std::nullopt;
  return std::pair{name.substr(0, colon), index};
}

Status not_found(const Graph& graph, std::string_view name) {
  const std::string_view wanted = split_index(name) ? split_index(name)->first : name;
  const std::string_view leaf = wanted.substr(wanted.rfind('/') + 1);  // npos + 1 == 0: all of it
  std::vector<std::string> alike, outputs;
  for (std::int32_t i = 0; i < graph.size() && alike.size() < kMaxSuggestions; ++i)
    if (!leaf.empty() && graph.node(i).name.find(leaf) != std::string::npos)
      alike.push_back(graph.node(i).name);
  for (const auto& [own, v] : graph.outputs()) outputs.push_back(own);
  return error(
      Code::kNotFound,
      "[exec] the graph has no edge '{}', expected an input, an output ({}) or a node; nodes alike: {}", name,
      fmt::join(outputs, ", "),
      alike.empty() ? std::string("none") : fmt::format("{}", fmt::join(alike, ", ")));
}

Result<Value> find_among_nodes(const Graph& graph, std::string_view name) {
  if (const auto node = find_node(graph, name)) return Value{*node, 0};
  if (const auto split = split_index(name))
    if (const auto node = find_node(graph, split->first)) {
      const auto num_outputs = static_cast<std::int32_t>(graph.node(*node).outputs.size());
      if (split->second < num_outputs) return Value{*node, split->second};
      return error(Code::kNotFound, "[exec] node '{}' has no output {}, expected 0 to {}", split->first,
                   split->second, num_outputs - 1);
    }
  return not_found(graph, name);
}

}  // namespace

Result<Value> find_edge(const Graph& graph, std::string_view name) {
  if (const auto v = graph.find_input(name)) return *v;
  if (const auto v = graph.find_variable(name)) return *v;
  Result<Value> found = find_among_nodes(graph, name);
  if (found.ok()) return found;
  if (const auto v = graph.find_output(name)) return *v;
  return found;
}

Result<Value> find_fetch(const Graph& graph, std::string_view name) {
  if (const auto v = graph.find_output(name)) return *v;
  return find_edge(graph, name);
}

Result<Graph> cut_at(const Graph& graph, std::span<const Cut> cuts) {
  for (const Cut& cut : cuts)
    if (graph.node(cut.at.node).def == &op::kInput)
      return error(Code::kInvalid, "[exec] '{}' cuts the input '{}'; feed that input instead", cut.input,
                   graph.node(cut.at.node).name);
  Graph out;
  std::vector<std::vector<Value>> moved;  // [node][output]: its place in `out`
  const auto at = [&](Value v) {
    return moved[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
  };
  std::vector<std::int32_t> node_at;
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    std::vector<Value> inputs;
    for (const Value v : node.inputs) inputs.push_back(at(v));
    TR_ASSIGN_OR_RETURN(const Value own, out.add_like(node, std::move(inputs)));
    for (const std::int32_t c : node.control) out.add_control(node_at[static_cast<std::size_t>(c)], own.node);
    node_at.push_back(own.node);
    std::vector<Value>& places = moved.emplace_back();
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
      places.push_back({own.node, k});
    for (const Cut& cut : cuts) {
      if (cut.at.node != i) continue;
      const TensorType& type = graph.type(cut.at);
      const auto dims = type.shape.dims();
      TR_ASSIGN_OR_RETURN(places[static_cast<std::size_t>(cut.at.index)],
                          out.add(op::kInput, {},
                                  {{"name", cut.input},
                                   {"dtype", type.dtype},
                                   {"shape", std::vector<std::int64_t>(dims.begin(), dims.end())}}));
    }
  }
  for (const auto& [name, v] : graph.outputs()) out.set_output(name, at(v));
  if (Status s = graph::verify(out); !s.ok())
    return s.with_prefix("[exec] the graph cannot be cut there (a variable that it changes cannot be fed): ");
  return out;
}

}  // namespace trireme::exec
