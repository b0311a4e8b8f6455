#include "trireme/exec/session_graph.h"

#include <fmt/format.h>
#include <optional>

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

// The batch size that the feeds of edges with an unknown one have.
Result<std::optional<std::int64_t>> batch_of(const Graph& graph, const Types& feeds) {
  std::optional<std::int64_t> batch;
  std::string who;
  for (const auto& [name, type] : feeds) {
    const Result<Value> v = find_edge(graph, name);
    if (!v.ok()) continue;  // named by with_feeds
    const Shape& shape = graph.type(*v).shape;
    for (int d = 0; d < shape.rank() && shape.rank() == type.shape.rank(); ++d) {
      if (shape[d] != kUnknownDim) continue;
      if (batch && *batch != type.shape[d])
        return error(Code::kInvalid,
                     "[exec] feeds '{}' and '{}' have different batch sizes: got {} and {}, expected one",
                     who, name, *batch, type.shape[d]);
      batch = type.shape[d];
      who = name;
    }
  }
  return batch;
}

Result<Graph> with_passes(Graph graph, const std::vector<std::string>& passes) {
  for (const std::string& name : passes) {
    const graph::PassRow* pass = graph::find_pass(name);
    if (pass == nullptr) {
      std::vector<std::string_view> known;
      for (const graph::PassRow& row : graph::pass_table()) known.push_back(row.name);
      return error(Code::kNotFound, "[exec] there is no graph pass '{}', expected one of: {}", name,
                   fmt::join(known, ", "));
    }
    TR_ASSIGN_OR_RETURN(graph, pass->run(graph, {}));
  }
  return graph;
}

}  // namespace

Result<Graph> session_graph(const Graph& graph, const RunNames& names,
                            const std::vector<std::string>& passes) {
  TR_ASSIGN_OR_RETURN(const std::optional<std::int64_t> batch, batch_of(graph, names.feeds));
  Graph known;
  if (batch) {
    TR_ASSIGN_OR_RETURN(known, graph::specialise(graph, *batch));
  }
  TR_ASSIGN_OR_RETURN(const Graph fed, with_feeds(batch ? known : graph, names.feeds));
  TR_ASSIGN_OR_RETURN(Graph needed, with_wanted_outputs(fed, names.fetches, names.effects));
  TR_RETURN_IF_ERROR(check_nothing_missing(needed, names.feeds));
  return with_passes(std::move(needed), passes);
}

}  // namespace trireme::exec
