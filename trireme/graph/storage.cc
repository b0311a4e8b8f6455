#include "trireme/graph/storage.h"

#include <algorithm>

#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

// Ops whose output has the elements of their input in the same order.
bool is_view(const Node& node) { return node.is(op::kReshape) || node.is(op::kStopGradient); }

}  // namespace

Value natural_alias(const Graph& graph, Value v) {
  const Node& node = graph.node(v.node);
  if (is_view(node)) return node.inputs[0];
  const auto k = static_cast<std::size_t>(v.index);
  if (!node.def->has(op::kMutates) || k >= node.def->mutated_inputs.size()) return {};
  const Value target = node.inputs[static_cast<std::size_t>(node.def->mutated_inputs[k])];
  return graph.type(target) == graph.type(v) ? target : Value{};
}

ValueMap<Value> storage_roots(const Graph& graph, std::span<const Value> pinned) {
  ValueMap<bool> is_pinned(graph, false);
  for (const Value v : pinned) is_pinned[v] = true;
  ValueMap<Value> roots(graph);
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k) {
      const Value v{i, k};
      const Value alias = natural_alias(graph, v);
      const bool own = alias.is_null() || (is_pinned[v] && is_view(node));
      roots[v] = own ? v : roots[alias];
    }
  }
  return roots;
}

bool is_free(const Graph& graph, std::int32_t node, const ValueMap<Value>& roots) {
  const Node& n = graph.node(node);
  if (n.def->has(op::kFeed)) return true;
  return is_view(n) && roots[Value{node, 0}] != Value{node, 0};
}

std::vector<std::vector<std::int32_t>> run_dependencies(const Graph& graph, const ValueMap<Value>& roots) {
  const auto n = static_cast<std::size_t>(graph.size());
  // ends[i]: what must have run before the outputs of i are there; {i} for nodes that run.
  std::vector<std::vector<std::int32_t>> deps(n), ends(n);
  ValueMap<std::vector<std::int32_t>> readers(graph);  // by storage
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    std::vector<std::int32_t>& own = deps[static_cast<std::size_t>(i)];
    const auto need = [&](std::int32_t before) {
      const auto& from = ends[static_cast<std::size_t>(before)];
      own.insert(own.end(), from.begin(), from.end());
    };
    for (const Value v : node.inputs) need(v.node);
    for (const std::int32_t c : node.control) need(c);
    const bool free = is_free(graph, i, roots);
    if (!free) {
      for (const int m : node.def->mutated_inputs) {
        const auto& before = readers[roots[node.inputs[static_cast<std::size_t>(m)]]];
        own.insert(own.end(), before.begin(), before.end());
      }
      for (const Value v : node.inputs) readers[roots[v]].push_back(i);
    }
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    std::erase(own, i);
    if (free) {
      ends[static_cast<std::size_t>(i)] = std::move(own);
      own.clear();
    } else {
      ends[static_cast<std::size_t>(i)] = {i};
    }
  }
  return deps;
}

}  // namespace trireme::graph
