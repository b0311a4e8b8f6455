#include "trireme/exec/phases.h"

#include <fmt/format.h>
#include <algorithm>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/graph/storage.h"

namespace trireme::exec {
namespace {

using graph::Graph;
using graph::Value;

Result<Phases> phases_of_outputs(const Graph& graph, const std::vector<std::vector<std::string>>& outputs) {
  Phases phases{.num = static_cast<std::int32_t>(outputs.size())};
  for (std::int32_t p = 0; p < phases.num; ++p)
    for (const std::string& name : outputs[static_cast<std::size_t>(p)]) {
      if (!graph.find_output(name)) {
        std::vector<std::string> names;
        for (const auto& [known, v] : graph.outputs()) names.push_back(known);
        return error(Code::kNotFound,
                     "[exec] phase {} has output '{}', which is not fetched; fetched are: {}", p, name,
                     fmt::join(names, ", "));
      }
      const auto [at, added] = phases.of_output.emplace(name, p);
      if (!added)
        return error(Code::kInvalid,
                     "[exec] output '{}' is in phase {} and in phase {}, expected one of them", name,
                     at->second, p);
    }
  for (const auto& [name, v] : graph.outputs())
    if (!phases.of_output.contains(name))
      return error(Code::kInvalid, "[exec] output '{}' is fetched, but in none of the {} phases", name,
                   phases.num);
  return phases;
}

// For every node, those that must be in its phase or an earlier one.
std::vector<std::vector<std::int32_t>> needs_of(const Graph& graph) {
  const graph::ValueMap<Value> roots = graph::storage_roots(graph);
  graph::ValueMap<std::vector<std::int32_t>> readers(graph);  // so far, of a storage
  std::vector<std::vector<std::int32_t>> needs(static_cast<std::size_t>(graph.size()));
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const graph::Node& node = graph.node(i);
    std::vector<std::int32_t>& own = needs[static_cast<std::size_t>(i)];
    own = node.control;
    for (const Value v : node.inputs) own.push_back(v.node);
    for (const int m : node.def->mutated_inputs) {
      const std::vector<std::int32_t>& before = readers[roots[node.inputs[static_cast<std::size_t>(m)]]];
      own.insert(own.end(), before.begin(), before.end());
    }
    for (const Value v : node.inputs) readers[roots[v]].push_back(i);
  }
  return needs;
}

}  // namespace

Result<PhasedGraph> order_by_phase(const Graph& graph, const std::vector<std::vector<std::string>>& outputs) {
  TR_ASSIGN_OR_RETURN(Phases phases, phases_of_outputs(graph, outputs));
  std::vector<std::int32_t> phase(static_cast<std::size_t>(graph.size()), phases.num - 1);
  for (const auto& [name, v] : graph.outputs()) {
    std::int32_t& of_node = phase[static_cast<std::size_t>(v.node)];
    of_node = std::min(of_node, phases.of(name));
  }
  const std::vector<std::vector<std::int32_t>> needs = needs_of(graph);
  for (std::size_t i = needs.size(); i-- > 0;)
    for (const std::int32_t n : needs[i])
      phase[static_cast<std::size_t>(n)] = std::min(phase[static_cast<std::size_t>(n)], phase[i]);

  graph::Rewriter rewriter(graph);
  for (std::int32_t p = 0; p < phases.num; ++p)
    for (std::int32_t i = 0; i < graph.size(); ++i) {
      if (phase[static_cast<std::size_t>(i)] != p) continue;
      TR_RETURN_IF_ERROR(rewriter.copy(i).status());
      phases.of_node.push_back(p);
    }
  PhasedGraph out{{}, std::move(phases)};
  TR_ASSIGN_OR_RETURN(out.graph, rewriter.finish());
  return out;
}

}  // namespace trireme::exec
