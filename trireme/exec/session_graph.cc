#include "trireme/exec/session_graph.h"

#include "trireme/exec/edges.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/op/ops.h"

namespace trireme::exec {
namespace {

using graph::Graph;
using graph::Value;
using Types = std::map<std::string, TensorType>;

// Outputs of the result are exactly what is wanted.
Result<Graph> with_wanted_outputs(const Graph& graph, const std::vector<std::string>& fetches,
                                  const std::vector<std::string>& effects) {
  if (fetches.empty() && effects.empty())
    return error(Code::kInvalid, "[exec] a run without fetches and effects does nothing; name an edge");
  Graph named = graph;
  std::vector<std::string> names;
  for (const auto* list : {&fetches, &effects})
    for (const std::string& name : *list) {
      TR_ASSIGN_OR_RETURN(const Value v, find_fetch(graph, name));
      named.set_output(name, v);
      names.push_back(name);
    }
  return graph::eliminate_dead_code(named, names);
}

Status check_type(const std::string& name, const TensorType& got, const TensorType& expected) {
  if (got == expected) return {};
  return error(Code::kInvalid, "[exec] feed '{}' has the wrong type: got {}, expected {}", name,
               got.to_string(), expected.to_string());
}

Result<Graph> with_feeds(const Graph& graph, const Types& feeds) {
  std::vector<Cut> cuts;
  std::map<std::pair<std::int32_t, std::int32_t>, std::string> taken;
  for (const auto& [name, type] : feeds) {
    Result<Value> v = find_edge(graph, name);
    if (!v.ok()) return v.status().with_prefix(fmt::format("[exec] feed '{}': ", name));
    TR_RETURN_IF_ERROR(check_type(name, type, graph.type(*v)));
    const auto [at, added] = taken.try_emplace({v->node, v->index}, name);
    if (!added)
      return error(Code::kInvalid, "[exec] feeds '{}' and '{}' are the same edge; give one of them",
                   at->second, name);
    const graph::Node& node = graph.node(v->node);
    if (node.def != &op::kInput || node.attrs.get_text("name") != name) cuts.push_back({*v, name});
  }
  if (cuts.empty()) return graph;
  return cut_at(graph, cuts);
}

Status check_nothing_missing(const Graph& needed, const Types& feeds) {
  std::vector<std::string> missing;
  for (std::int32_t i = 0; i < needed.size(); ++i) {
    const graph::Node& node = needed.node(i);
    if (node.def != &op::kInput || feeds.contains(node.attrs.get_text("name"))) continue;
    missing.push_back(fmt::format("'{}' ({})", node.attrs.get_text("name"), node.outputs[0].to_string()));
  }
  if (missing.empty()) return {};
  return error(Code::kInvalid,
               "[exec] the fetches need inputs that are not fed: {}; feed them, or an edge behind them",
               fmt::join(missing, ", "));
}

}  // namespace

Result<Graph> session_graph(const Graph& graph, const Types& feeds, const std::vector<std::string>& fetches,
                            const std::vector<std::string>& effects) {
  TR_ASSIGN_OR_RETURN(const Graph fed, with_feeds(graph, feeds));
  TR_ASSIGN_OR_RETURN(Graph needed, with_wanted_outputs(fed, fetches, effects));
  TR_RETURN_IF_ERROR(check_nothing_missing(needed, feeds));
  return needed;
}

}  // namespace trireme::exec
