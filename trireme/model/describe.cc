#include "trireme/model/describe.h"

#include <memory>
#include <set>

#include "trireme/base/edit_distance.h"
#include "trireme/model/describe_layers.h"

namespace trireme::model {
namespace {

using Type = LayerAttr::Type;
constexpr int kMaxDepth = 16;
constexpr std::size_t kMaxLayers = 10'000;  // of one list

Result<const LayerRow*> find_row(const std::string& kind, const std::string& where) {
  std::string known;
  for (const LayerRow& row : layer_table()) {
    if (kind == row.kind) return &row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.kind);
  }
  return error(Code::kInvalid, "[model] {}: kind: got '{}', expected one of: {}", where, kind, known);
}

const LayerAttr* find_attr(const LayerRow& row, const std::string& name) {
  for (const LayerAttr& attr : row.attrs)
    if (name == attr.name) return &attr;
  return nullptr;
}

Status unknown_attr(const LayerRow& row, const std::string& name, const std::string& where) {
  std::string known = "kind, name";
  for (const LayerAttr& attr : row.attrs) known += fmt::format(", {}", attr.name);
  std::string_view nearest;
  std::size_t best = 3;  // further away is another word
  for (const LayerAttr& attr : row.attrs)
    if (const std::size_t d = edit_distance(std::string_view(name).substr(0, 64), attr.name); d < best)
      best = d, nearest = attr.name;
  const std::string guess = nearest.empty() ? "" : fmt::format("did you mean '{}'? ", nearest);
  return error(Code::kInvalid, "[model] {}: unknown attribute '{}'; {}expected one of: {}", where, name,
               guess, known);
}

Result<std::vector<LayerSettings>> parse_list(const Json& list, const ModelInput& input,
                                              const std::string& prefix, int depth);

// Reads one given attribute into the settings.
Status read_attr(const LayerAttr& attr, const Json& value, const std::string& where, LayerSettings& out) {
  static constexpr const char* kTypes[] = {"an integer", "a number", "true or false", "a string", "a list"};
  const bool fits = attr.type == Type::kInt      ? value.is_number_integer()
                    : attr.type == Type::kNumber ? value.is_number()
                    : attr.type == Type::kBool   ? value.is_boolean()
                    : attr.type == Type::kText   ? value.is_string()
                                                 : value.is_array();
  if (!fits)
    return error(Code::kInvalid, "[model] {}: '{}': got {}, expected {}", where, attr.name, value.type_name(),
                 kTypes[static_cast<std::size_t>(attr.type)]);
  if (attr.type == Type::kText) out.texts[attr.name] = value.get<std::string>();
  if (attr.type == Type::kBool) out.numbers[attr.name] = value.get<bool>() ? 1 : 0;
  if (attr.type == Type::kInt || attr.type == Type::kNumber) {
    const double number = value.get<double>();
    if (!(number >= attr.least && number <= attr.most))
      return error(Code::kInvalid, "[model] {}: '{}': got {}, expected {} to {}", where, attr.name, number,
                   attr.least, attr.most);
    out.numbers[attr.name] = number;
  }
  return {};
}

Status read_attrs(const Json& layer, const std::string& index, int depth, LayerSettings& out) {
  const std::string where = fmt::format("layer {} ({})", index, out.row->kind);
  // Before what is missing: a misspelt attribute is both.
  for (const auto& [name, value] : layer.items())
    if (name != "kind" && name != "name" && find_attr(*out.row, name) == nullptr)
      return unknown_attr(*out.row, name, where);
  for (const LayerAttr& attr : out.row->attrs) {
    if (attr.type == Type::kText) out.texts[attr.name] = attr.text;
    if (attr.type != Type::kText && attr.type != Type::kLayers) out.numbers[attr.name] = attr.number;
    if (attr.required && !layer.contains(attr.name))
      return error(Code::kInvalid, "[model] {}: '{}' is missing", where, attr.name);
  }
  for (const auto& [name, value] : layer.items()) {
    if (name == "kind" || name == "name") continue;
    const LayerAttr* attr = find_attr(*out.row, name);
    TR_RETURN_IF_ERROR(read_attr(*attr, value, where, out));
    if (attr->type == Type::kLayers) {
      TR_ASSIGN_OR_RETURN(out.inner, parse_list(value, out.input, index + ".", depth + 1));
    }
  }
  return {};
}

Status read_name(const Json& layer, const std::string& index, std::map<std::string, int>& counts,
                 std::set<std::string>& used, LayerSettings& out) {
  out.name = fmt::format("{}{}", out.row->kind, ++counts[out.row->kind]);
  if (const auto name = layer.find("name"); name != layer.end()) {
    const bool plain =
        name->is_string() && !name->get<std::string>().empty() &&
        name->get<std::string>().find_first_not_of(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == std::string::npos;
    if (!plain)
      return error(Code::kInvalid, "[model] layer {} ({}): 'name': expected a word of letters, digits, _ - .",
                   index, out.row->kind);
    out.name = name->get<std::string>();
  }
  if (!used.insert(out.name).second)
    return error(Code::kInvalid, "[model] layer {} ({}): the name '{}' is taken by an earlier layer", index,
                 out.row->kind, out.name);
  return {};
}

Result<std::vector<LayerSettings>> parse_list(const Json& list, const ModelInput& input,
                                              const std::string& prefix, int depth) {
  if (depth > kMaxDepth)
    return error(Code::kInvalid, "[model] layer {}: more than {} lists inside each other", prefix, kMaxDepth);
  if (!list.is_array() || list.empty() || list.size() > kMaxLayers)
    return error(Code::kInvalid, "[model] layers: got {} of {}, expected a list of 1 to {} layers",
                 list.type_name(), list.size(), kMaxLayers);
  std::vector<LayerSettings> layers;
  std::map<std::string, int> counts;
  std::set<std::string> used;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string index = fmt::format("{}{}", prefix, i);
    const Json& layer = list[i];
    const bool has_kind = layer.is_object() && layer.contains("kind") && layer["kind"].is_string();
    if (!has_kind)
      return error(Code::kInvalid, "[model] layer {}: got {}, expected a table with a string 'kind'", index,
                   layer.type_name());
    LayerSettings settings;
    TR_ASSIGN_OR_RETURN(settings.row, find_row(layer["kind"].get<std::string>(), "layer " + index));
    settings.input = input;
    settings.where = fmt::format("[model] layer {} ({}): ", index, settings.row->kind);
    TR_RETURN_IF_ERROR(read_name(layer, index, counts, used, settings));
    TR_RETURN_IF_ERROR(read_attrs(layer, index, depth, settings));
    layers.push_back(std::move(settings));
  }
  return layers;
}

}  // namespace

Result<ModelFn> describe_model(const Json& layers, const ModelInput& input) {
  TR_ASSIGN_OR_RETURN(std::vector<LayerSettings> parsed, parse_list(layers, input, "", 1));
  auto shared = std::make_shared<const std::vector<LayerSettings>>(std::move(parsed));
  return ModelFn([shared](LayerBuilder& l, graph::Value x) { return build_layers(l, x, *shared); });
}

}  // namespace trireme::model
