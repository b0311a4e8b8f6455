#include "trireme/graph/pass/rewrite.h"

#include <algorithm>
#include <type_traits>

#include "trireme/base/bytes.h"
#include "trireme/op/ops.h"

namespace trireme::graph {

Rewriter::Rewriter(const Graph& from)
    : from_(from), values_(from), nodes_(static_cast<std::size_t>(from.size()), -1) {
  for (std::int32_t i = 0; i < from.size(); ++i) names_.insert(from.node(i).name);
}

std::vector<Value> Rewriter::at(std::span<const Value> old) const {
  std::vector<Value> now;
  for (const Value v : old) now.push_back(at(v));
  return now;
}

Result<Value> Rewriter::copy(std::int32_t id) {
  const Node& node = from_.node(id);
  return copy(id, at(node.inputs), node.attrs);
}

Result<Value> Rewriter::copy(std::int32_t id, std::vector<Value> inputs, Attrs attrs) {
  const Node& node = from_.node(id);
  TR_ASSIGN_OR_RETURN(const Value v, to_.add(*node.def, std::move(inputs), std::move(attrs), node.name,
                                             node.site, node.forms));
  nodes_[static_cast<std::size_t>(id)] = v.node;
  for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k) map({id, k}, {v.node, k});
  for (const std::int32_t c : node.control)
    if (moved(c) >= 0) to_.add_control(moved(c), v.node);
  return v;
}

Result<Value> Rewriter::add(const OpDef& def, std::vector<Value> inputs, Attrs attrs, std::string_view name,
                            std::string_view site, Forms forms) {
  std::string own(name);
  for (int i = 1; !names_.insert(own).second; ++i) own = fmt::format("{}_{}", name, i);
  return to_.add(def, std::move(inputs), std::move(attrs), own, site, std::move(forms));
}

Result<Value> Rewriter::add_in_place_of(std::int32_t id, const OpDef& def, std::vector<Value> inputs,
                                        Attrs attrs, Forms forms) {
  return to_.add(def, std::move(inputs), std::move(attrs), from_.node(id).name, from_.node(id).site,
                 std::move(forms));
}

Status Rewriter::put_biased(std::int32_t id, const OpDef& def, std::vector<Value> inputs, Value bias,
                            DType low, Attrs attrs) {
  const Node& old = from_.node(id);
  std::vector<Value> wide_bias{bias}, made(1);
  TR_ASSIGN_OR_RETURN(const Value narrow,
                      add(op::kCast, std::move(wide_bias), {{"dtype", low}}, old.name + "/bias", old.site));
  inputs.push_back(narrow);
  TR_ASSIGN_OR_RETURN(made[0], add_in_place_of(id, def, std::move(inputs), std::move(attrs)));
  TR_ASSIGN_OR_RETURN(const Value wide,
                      add(op::kCast, std::move(made), {{"dtype", DType::kF32}}, old.name + "/f32", old.site));
  map({id, 0}, wide);
  return {};
}

Result<Graph> Rewriter::finish() {
  for (const auto& [name, v] : from_.outputs()) {
    TR_CHECK(!at(v).is_null(), "a pass lost output '{}'", name);
    to_.set_output(name, at(v));
  }
  return std::move(to_);
}

std::vector<bool> movable_nodes(const Graph& graph, bool may_be_random) {
  std::vector<bool> movable(static_cast<std::size_t>(graph.size()), true);
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& n = graph.node(i);
    const OpDef& def = *n.def;
    if (def.reference == nullptr || def.has(op::kHostOp) || def.has(op::kStateful) || def.has(op::kFeed) ||
        def.has(op::kMutates) || (def.has(op::kRandom) && !may_be_random) || !n.control.empty())
      movable[static_cast<std::size_t>(i)] = false;
    for (const std::int32_t c : n.control) movable[static_cast<std::size_t>(c)] = false;
  }
  return movable;
}

std::vector<TensorType> input_types(const Graph& graph, const Node& node) {
  std::vector<TensorType> types;
  for (const Value v : node.inputs) types.push_back(graph.type(v));
  return types;
}

ValueMap<std::vector<std::int32_t>> users_of(const Graph& graph) {
  ValueMap<std::vector<std::int32_t>> users(graph);
  for (std::int32_t i = 0; i < graph.size(); ++i)
    for (const Value v : graph.node(i).inputs)
      if (users[v].empty() || users[v].back() != i) users[v].push_back(i);
  return users;
}

Overview::Overview(const Graph& graph, bool may_be_random)
    : graph_(graph),
      movable_(movable_nodes(graph, may_be_random)),
      users_(users_of(graph)),
      is_output_(graph, false) {
  for (const auto& [name, v] : graph.outputs()) is_output_[v] = true;
}

Mutations::Mutations(const Graph& graph) : roots_(storage_roots(graph)), changed_at_(graph) {
  for (std::int32_t i = 0; i < graph.size(); ++i)
    for (const int m : graph.node(i).def->mutated_inputs)
      changed_at_[roots_[graph.node(i).inputs[static_cast<std::size_t>(m)]]].push_back(i);
}

bool Mutations::between(Value v, std::int32_t first, std::int32_t last) const {
  const std::vector<std::int32_t>& at = changed_at_[roots_[v]];
  const auto next = std::upper_bound(at.begin(), at.end(), first);
  return next != at.end() && *next < last;
}

void append_attrs(std::string& out, const Attrs& attrs) {
  Bytes bytes;
  const auto text = [&](std::string_view s) {
    append_le(bytes, static_cast<std::uint64_t>(s.size()));
    const ByteView view = as_bytes(s);
    bytes.insert(bytes.end(), view.begin(), view.end());
  };
  for (const auto& [name, value] : attrs.items()) {
    text(name);
    append_le(bytes, static_cast<std::uint8_t>(value.index()));
    std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, std::string>) {
            text(v);
          } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
            append_le(bytes, static_cast<std::uint64_t>(v.size()));
            for (const std::int64_t i : v) append_le(bytes, i);
          } else {
            append_le(bytes, v);
          }
        },
        value);
  }
  out += as_text(bytes);
}

}  // namespace trireme::graph
