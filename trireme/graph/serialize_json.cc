// The JSON form: docs/format_graph.md, section "JSON".
#include "trireme/base/json.h"
#include "trireme/graph/restore.h"
#include "trireme/graph/serialize.h"
#include "trireme/op/detail/attr_json.h"
#include "trireme/op/forms.h"

namespace trireme::graph {
namespace {

constexpr std::string_view kFormat = "trireme.graph";

Json pair_of(Value v) { return Json::array({v.node, v.index}); }

Result<Json> node_json(const Node& node) {
  Json inputs = Json::array(), types = Json::array();
  for (const Value v : node.inputs) inputs.push_back(pair_of(v));
  for (const TensorType& t : node.outputs) types.push_back(t.to_string());
  auto attrs = op::detail::attrs_to_json(node.attrs);
  if (!attrs.ok()) return attrs.status().with_prefix(fmt::format("[graph] node '{}': ", node.name));
  Json json{{"op", std::string(node.def->name)}, {"name", node.name}};
  if (!node.site.empty()) json["site"] = node.site;
  if (!node.forms.is_plain()) json["forms"] = op::to_text(node.forms);
  json["inputs"] = std::move(inputs);
  if (!node.control.empty()) json["after"] = node.control;
  json["attrs"] = std::move(*attrs);
  json["types"] = std::move(types);
  return json;
}

Status bad(std::string_view what) { return error(Code::kCorrupt, "[graph] JSON graph: {}", what); }

bool is_int32(const Json& json) {
  return json.is_number_integer() && json.get<std::int64_t>() >= INT32_MIN &&
         json.get<std::int64_t>() <= INT32_MAX;
}

Result<Value> value_from(const Json& json) {
  if (!json.is_array() || json.size() != 2 || !is_int32(json[0]) || !is_int32(json[1]))
    return bad("expected a value as [node, output]");
  return Value{json[0].get<std::int32_t>(), json[1].get<std::int32_t>()};
}

// A member that must be an array (or may be missing, when `optional`).
Result<const Json*> array_of(const Json& object, const char* key, bool optional = false) {
  static const Json kEmpty = Json::array();
  const auto it = object.find(key);
  if (it == object.end() && optional) return &kEmpty;
  if (it == object.end() || !it->is_array()) return bad(fmt::format("expected an array '{}'", key));
  return &*it;
}

Result<StoredNode> node_from(const Json& json) {
  if (!json.is_object()) return bad("expected a node as an object");
  StoredNode node;
  TR_ASSIGN_OR_RETURN(node.op, json_get<std::string>(json, "op"));
  TR_ASSIGN_OR_RETURN(node.name, json_get<std::string>(json, "name"));
  if (json.contains("site")) {
    TR_ASSIGN_OR_RETURN(node.site, json_get<std::string>(json, "site"));
  }
  if (json.contains("forms")) {
    TR_ASSIGN_OR_RETURN(node.forms, json_get<std::string>(json, "forms"));
  }
  TR_ASSIGN_OR_RETURN(const Json* inputs, array_of(json, "inputs"));
  for (const Json& item : *inputs) {
    TR_ASSIGN_OR_RETURN(const Value v, value_from(item));
    node.inputs.push_back(v);
  }
  TR_ASSIGN_OR_RETURN(const Json* after, array_of(json, "after", /*optional=*/true));
  for (const Json& item : *after) {
    if (!is_int32(item)) return bad("expected node numbers in 'after'");
    node.control.push_back(item.get<std::int32_t>());
  }
  TR_ASSIGN_OR_RETURN(const Json* types, array_of(json, "types"));
  for (const Json& item : *types) {
    if (!item.is_string()) return bad("expected texts in 'types'");
    node.types.push_back(item.get<std::string>());
  }
  const OpDef* def = op::find_op(node.op);
  if (def == nullptr) return bad(fmt::format("node '{}': this build has no op '{}'", node.name, node.op));
  const auto attrs = json.find("attrs");
  if (attrs == json.end()) return bad(fmt::format("node '{}' has no 'attrs'", node.name));
  auto decoded = op::detail::attrs_from_json(*def, *attrs);
  if (!decoded.ok()) return bad(fmt::format("node '{}': {}", node.name, decoded.status().message()));
  if (decoded->items().size() != attrs->size())
    return bad(fmt::format("node '{}': expected all attributes of '{}'", node.name, node.op));
  node.attrs = std::move(*decoded);
  return node;
}

}  // namespace

Result<std::string> to_json(const Graph& graph) {
  Json nodes = Json::array(), outputs = Json::array();
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    TR_ASSIGN_OR_RETURN(Json node, node_json(graph.node(i)));
    nodes.push_back(std::move(node));
  }
  for (const auto& [name, v] : graph.outputs())
    outputs.push_back(Json{{"name", name}, {"value", pair_of(v)}});
  const Json whole{{"format", std::string(kFormat)},
                   {"version", version_of(graph)},
                   {"nodes", std::move(nodes)},
                   {"outputs", std::move(outputs)}};
  TR_ASSIGN_OR_RETURN(const std::string text, dump_utf8(whole, 1, "graph"));
  return text + "\n";
}

Result<Graph> parse_graph_json(std::string_view text) {
  TR_ASSIGN_OR_RETURN(const Json json, parse_json(text, "graph"));
  if (!json.is_object()) return bad("expected an object");
  TR_ASSIGN_OR_RETURN(const auto format, json_get<std::string>(json, "format"));
  if (format != kFormat) return bad(fmt::format("got format '{}', expected '{}'", format, kFormat));
  TR_ASSIGN_OR_RETURN(const auto version, json_get<std::int64_t>(json, "version"));
  if (version < kPlainGraphVersion || version > kGraphFormatVersion)
    return bad(
        fmt::format("got version {}, expected {} to {}", version, kPlainGraphVersion, kGraphFormatVersion));
  Restorer restorer;
  TR_ASSIGN_OR_RETURN(const Json* nodes, array_of(json, "nodes"));
  for (const Json& item : *nodes) {
    TR_ASSIGN_OR_RETURN(StoredNode node, node_from(item));
    TR_RETURN_IF_ERROR(restorer.add(std::move(node)));
  }
  TR_ASSIGN_OR_RETURN(const Json* outputs, array_of(json, "outputs"));
  for (const Json& item : *outputs) {
    if (!item.is_object() || !item.contains("value")) return bad("expected an output as {name, value}");
    TR_ASSIGN_OR_RETURN(std::string name, json_get<std::string>(item, "name"));
    TR_ASSIGN_OR_RETURN(const Value v, value_from(item["value"]));
    TR_RETURN_IF_ERROR(restorer.output(std::move(name), v));
  }
  return restorer.finish(version);
}

}  // namespace trireme::graph
