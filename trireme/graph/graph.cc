#include "trireme/graph/graph.h"

#include <algorithm>

#include "trireme/op/forms.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

// `input` and `variable` carry their name as an attribute; other feeds have none.
const std::string* feed_name(const OpDef& def, const Attrs& attrs) {
  if (&def != &op::kInput && &def != &op::kVariable) return nullptr;
  const op::AttrValue* value = attrs.find("name");
  return value ? std::get_if<std::string>(value) : nullptr;
}

}  // namespace

std::string Site::to_string() const {
  if (file == nullptr) return {};
  std::string_view path = file;
  const std::size_t slash = path.rfind('/');
  if (slash != std::string_view::npos && slash > 0) {
    const std::size_t folder = path.rfind('/', slash - 1);
    if (folder != std::string_view::npos) path.remove_prefix(folder + 1);
  }
  return fmt::format("{}:{}", path, line);
}

Result<Value> Graph::add(const OpDef& def, std::vector<Value> inputs, Attrs attrs, std::string_view name,
                         std::string_view site, Forms forms) {
  const std::string where = fmt::format("[graph] {} in scope '{}'{}{}: ", def.name, scope(),
                                        site.empty() ? "" : " built at ", site);
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value v = inputs[i];
    if (v.node < 0 || v.node >= size() || v.index < 0 ||
        v.index >= static_cast<std::int32_t>(node(v.node).outputs.size()))
      return error(Code::kInvalid,
                   "{}input {} is no value of this graph: got node {} output {}, expected a node below {}",
                   where, i, v.node, v.index, size());
    types.push_back(type(v));
  }
  Result<Attrs> complete = op::complete_attrs(def, std::move(attrs));
  if (!complete.ok()) return complete.status().with_prefix(where);
  Result<std::vector<TensorType>> outputs = op::infer_types(def, types, *complete, forms);
  if (!outputs.ok()) return outputs.status().with_prefix(where);

  std::string wanted = fmt::format("{}{}", scope(), name.empty() ? def.name : name);
  if (const std::string* feed = feed_name(def, *complete)) {
    if (feed->empty())
      return error(Code::kInvalid, "{}the attribute 'name' is empty; give every {} a name", where, def.name);
    if (!feeds_.try_emplace({&def, *feed}, size()).second)
      return error(Code::kExists, "{}'{}' exists already; use the existing value or another name", where,
                   *feed);
    wanted = name.empty() ? *feed : std::string(name);
  }
  nodes_.push_back({.def = &def,
                    .inputs = std::move(inputs),
                    .control = {},
                    .attrs = std::move(*complete),
                    .outputs = std::move(*outputs),
                    .name = unique_name(std::move(wanted)),
                    .site = std::string(site),
                    .forms = forms.is_plain() ? Forms{} : std::move(forms)});
  return Value{size() - 1, 0};
}

Result<Value> Graph::add_like(const Node& node, std::vector<Value> inputs) {
  return add(*node.def, std::move(inputs), node.attrs, node.name, node.site, node.forms);
}

void Graph::add_control(std::int32_t before, std::int32_t after) {
  TR_CHECK(before >= 0 && before < after && after < size(), "control edge {} -> {} in a graph of {} nodes",
           before, after, size());
  std::vector<std::int32_t>& control = nodes_[static_cast<std::size_t>(after)].control;
  const auto at = std::lower_bound(control.begin(), control.end(), before);
  if (at == control.end() || *at != before) control.insert(at, before);
}

void Graph::set_output(std::string name, Value v) {
  TR_CHECK(v.node >= 0 && v.node < size(), "output '{}' is no value of this graph", name);
  for (auto& [own, value] : outputs_) {
    if (own != name) continue;
    value = v;
    return;
  }
  outputs_.emplace_back(std::move(name), v);
}

std::optional<Value> Graph::find_output(std::string_view name) const {
  for (const auto& [own, value] : outputs_)
    if (own == name) return value;
  return std::nullopt;
}

std::optional<Value> Graph::find_input(std::string_view name) const { return find_feed(op::kInput, name); }
std::optional<Value> Graph::find_variable(std::string_view name) const {
  return find_feed(op::kVariable, name);
}
std::optional<Value> Graph::find_feed(const OpDef& def, std::string_view name) const {
  const auto it = feeds_.find({&def, std::string(name)});
  return it == feeds_.end() ? std::nullopt : std::optional(Value{it->second, 0});
}

std::vector<std::pair<std::string, Value>> Graph::variables() const {
  std::vector<std::pair<std::string, Value>> found;
  for (std::int32_t i = 0; i < size(); ++i)
    if (node(i).def == &op::kVariable)
      found.emplace_back(*feed_name(op::kVariable, node(i).attrs), Value{i, 0});
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return found;
}

void Graph::push_scope(std::string_view name) { scopes_.emplace_back(name); }
void Graph::pop_scope() {
  TR_CHECK(!scopes_.empty(), "pop_scope without push_scope");
  scopes_.pop_back();
}
std::string Graph::scope() const {
  std::string path;
  for (const std::string& s : scopes_) path.append(s).append("/");
  return path;
}

std::string Graph::unique_name(std::string wanted) {
  if (used_names_.emplace(wanted, 0).second) return wanted;
  while (true) {
    std::string next = fmt::format("{}_{}", wanted, ++used_names_[wanted]);
    if (used_names_.emplace(next, 0).second) return next;
  }
}

cost::OpCost node_cost(const Graph& graph, std::int32_t id) {
  const Node& node = graph.node(id);
  std::vector<TensorType> in;
  in.reserve(node.inputs.size());
  for (const Value v : node.inputs) in.push_back(graph.type(v));
  if (!node.forms.is_plain())
    return op::formed_cost({*node.def, in, node.outputs, node.attrs, 1, node.forms});
  if (node.def->cost) return node.def->cost(in, node.outputs, node.attrs);
  cost::OpCost cost;
  if (node.def->has(op::kFeed) || node.def == &op::kReshape) return cost;  // no traffic of their own
  for (const TensorType& t : in) cost.bytes += static_cast<double>(t.num_bytes());
  for (const TensorType& t : node.outputs) cost.bytes += static_cast<double>(t.num_bytes());
  return cost;
}

cost::OpCost total_cost(const Graph& graph) {
  cost::OpCost total;
  for (std::int32_t i = 0; i < graph.size(); ++i) total += node_cost(graph, i);
  return total;
}

}  // namespace trireme::graph
