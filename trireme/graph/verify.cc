#include "trireme/graph/graph.h"
#include "trireme/graph/storage.h"
#include "trireme/op/forms.h"
#include "trireme/op/ops.h"

#include <algorithm>
#include <set>

namespace trireme::graph {
namespace {

Status bad(const Graph& graph, std::int32_t id, std::string_view what) {
  const Node& n = graph.node(id);
  return error(Code::kInvalid, "[graph] node %{} '{}' ({}){}{}: {}", id, n.name,
               n.def ? n.def->name : "no op", n.site.empty() ? "" : " built at ", n.site, what);
}

std::string types_text(const std::vector<TensorType>& types) {
  std::string text;
  for (const TensorType& t : types) text += (text.empty() ? "" : ", ") + t.to_string();
  return text.empty() ? "none" : text;
}

// Values need no look: completing leaves them alone, and NaN differs from itself.
bool same_names(const Attrs& a, const Attrs& b) {
  return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                    [](const auto& x, const auto& y) { return x.first == y.first; });
}

Status verify_node(const Graph& graph, std::int32_t id) {
  const Node& n = graph.node(id);
  if (n.def == nullptr) return bad(graph, id, "it has no op");
  std::vector<TensorType> in;
  for (const Value v : n.inputs) {
    if (v.node < 0 || v.node >= id)
      return bad(graph, id, fmt::format("its input comes from node {}, expected an earlier one", v.node));
    if (v.index < 0 || v.index >= static_cast<std::int32_t>(graph.node(v.node).outputs.size()))
      return bad(
          graph, id,
          fmt::format("its input is output {} of node {}, which has none of that number", v.index, v.node));
    in.push_back(graph.type(v));
  }
  for (const std::int32_t c : n.control)
    if (c < 0 || c >= id)
      return bad(graph, id, fmt::format("it waits for node {}, expected an earlier one", c));
  Result<Attrs> attrs = op::complete_attrs(*n.def, n.attrs);
  if (!attrs.ok()) return bad(graph, id, attrs.status().message());
  if (!same_names(*attrs, n.attrs)) return bad(graph, id, "its attributes are not complete");
  Result<std::vector<TensorType>> types = op::infer_types(*n.def, in, n.attrs, n.forms);
  if (!types.ok()) return bad(graph, id, types.status().message());
  if (*types != n.outputs)
    return bad(
        graph, id,
        fmt::format("its outputs are {}, inference gives {}", types_text(n.outputs), types_text(*types)));
  return {};
}

// Each storage counts its mutations; a Value remembers the count at which it was made. Reading a Value of an
// older count after a mutation would depend on who runs first.
Status verify_mutations(const Graph& graph) {
  const ValueMap<Value> roots = storage_roots(graph);
  ValueMap<int> made_at(graph, 0), now(graph, 0);
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& n = graph.node(i);
    for (const Value v : n.inputs)
      if (made_at[v] != now[roots[v]])
        return bad(
            graph, i,
            fmt::format(
                "it reads %{} after a later node changed '{}'; read the changing node's output instead",
                v.node, graph.node(roots[v].node).name));
    for (const int m : n.def->mutated_inputs) {
      const Value target = n.inputs[static_cast<std::size_t>(m)];
      const Value root = roots[target];
      if (graph.node(root.node).def != &op::kVariable)
        return bad(
            graph, i,
            fmt::format("it changes input {}, which is no variable but '{}'", m, graph.node(root.node).name));
      ++now[root];
    }
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(n.outputs.size()); ++k)
      made_at[Value{i, k}] = now[roots[Value{i, k}]];
  }
  return {};
}

}  // namespace

Status verify(const Graph& graph) {
  std::set<std::string_view> names;
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    TR_RETURN_IF_ERROR(verify_node(graph, i));
    if (!names.insert(graph.node(i).name).second) return bad(graph, i, "another node has that name");
  }
  for (const auto& [name, v] : graph.outputs())
    if (v.node < 0 || v.node >= graph.size() || v.index < 0 ||
        v.index >= static_cast<std::int32_t>(graph.node(v.node).outputs.size()))
      return error(Code::kInvalid, "[graph] output '{}' names no value: node {} output {}", name, v.node,
                   v.index);
  return verify_mutations(graph);
}

}  // namespace trireme::graph
