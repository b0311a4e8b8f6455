#include "trireme/graph/restore.h"

#include <fmt/format.h>
#include <algorithm>

#include "trireme/graph/serialize.h"
#include "trireme/op/forms.h"

namespace trireme::graph {
namespace {

Status bad(const StoredNode& node, std::int32_t id, std::string_view what) {
  return error(Code::kCorrupt, "[graph] stored node %{} '{}' ({}): {}", id, node.name, node.op, what);
}

}  // namespace

Status Restorer::add(StoredNode node) {
  const std::int32_t id = graph_.size();
  const OpDef* def = op::find_op(node.op);
  if (def == nullptr) return bad(node, id, "this build has no such op");
  if (node.name.empty()) return bad(node, id, "it has no name");
  if (!std::is_sorted(node.control.begin(), node.control.end()) ||
      std::adjacent_find(node.control.begin(), node.control.end()) != node.control.end() ||
      (!node.control.empty() && (node.control.front() < 0 || node.control.back() >= id)))
    return bad(node, id, "its control edges are not ascending numbers of earlier nodes");
  // Nothing is filled in: a file says everything, so that a changed default cannot change a stored graph.
  Result<Attrs> complete = op::complete_attrs(*def, node.attrs);
  if (!complete.ok()) return bad(node, id, complete.status().message());
  const auto &all = complete->items(), &own = node.attrs.items();
  if (!std::equal(all.begin(), all.end(), own.begin(), own.end(),
                  [](const auto& a, const auto& b) { return a.first == b.first; }))
    return bad(node, id, "its attributes are not all there in the order of the op");
  Result<Forms> forms = op::parse_forms(node.forms);
  if (!forms.ok()) return bad(node, id, forms.status().message());
  if (op::to_text(*forms) != node.forms)
    return bad(node, id, fmt::format("its forms are '{}', expected '{}'", node.forms, op::to_text(*forms)));
  Result<Value> v =
      graph_.add(*def, node.inputs, std::move(*complete), node.name, node.site, std::move(*forms));
  if (!v.ok()) return bad(node, id, v.status().message());
  const Node& added = graph_.node(id);
  if (added.name != node.name) return bad(node, id, "another node has that name");
  std::vector<std::string> types;
  for (const TensorType& t : added.outputs) types.push_back(t.to_string());
  if (types != node.types)
    return bad(node, id,
               fmt::format("its outputs are [{}], inference gives [{}]", fmt::join(node.types, ", "),
                           fmt::join(types, ", ")));
  for (const std::int32_t c : node.control) graph_.add_control(c, id);
  return {};
}

Status Restorer::output(std::string name, Value v) {
  if (v.node < 0 || v.node >= graph_.size() || v.index < 0 ||
      v.index >= static_cast<std::int32_t>(graph_.node(v.node).outputs.size()))
    return error(Code::kCorrupt, "[graph] stored output '{}' names no value: node {} output {}", name, v.node,
                 v.index);
  if (!outputs_.insert(name).second)
    return error(Code::kCorrupt, "[graph] two stored outputs are named '{}'", name);
  graph_.set_output(std::move(name), v);
  return {};
}

Result<Graph> Restorer::finish(std::int64_t version) {
  if (Status s = verify(graph_); !s.ok()) return error(Code::kCorrupt, "{}", s.message());
  if (const std::uint32_t own = version_of(graph_); version != own)
    return error(Code::kCorrupt,
                 "[graph] got version {}, expected {}: a graph has version {} where nodes have forms",
                 version, own, kGraphFormatVersion);
  return std::move(graph_);
}

}  // namespace trireme::graph
