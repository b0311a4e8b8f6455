#include "trireme/op/detail/attr_json.h"

#include <cmath>
#include <limits>

#include "trireme/base/utf8.h"

namespace trireme::op::detail {
namespace {

struct ToJson {
  Json operator()(double v) const {
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
    return v;
  }
  Json operator()(DType v) const { return std::string(dtype_name(v)); }
  template <typename T>
  Json operator()(const T& v) const {
    return v;
  }
};

std::optional<double> float_from(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (!json.is_string()) return std::nullopt;
  const auto& text = json.get_ref<const std::string&>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

bool is_int(const Json& json) {
  return json.is_number_integer() && !(json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX);
}

std::optional<AttrValue> value_from(const AttrValue& like, const Json& json) {
  if (std::holds_alternative<std::int64_t>(like) && is_int(json)) return json.get<std::int64_t>();
  if (std::holds_alternative<double>(like)) {
    if (const auto v = float_from(json)) return *v;
  }
  if (std::holds_alternative<bool>(like) && json.is_boolean()) return json.get<bool>();
  if (std::holds_alternative<std::string>(like) && json.is_string()) return json.get<std::string>();
  if (std::holds_alternative<std::vector<std::int64_t>>(like) && json.is_array()) {
    std::vector<std::int64_t> ints;
    for (const Json& item : json) {
      if (!is_int(item)) return std::nullopt;
      ints.push_back(item.get<std::int64_t>());
    }
    return ints;
  }
  if (std::holds_alternative<DType>(like) && json.is_string()) {
    const auto dtype = parse_dtype(json.get_ref<const std::string&>());
    if (dtype.ok()) return *dtype;
  }
  return std::nullopt;
}

}  // namespace

Result<Json> attrs_to_json(const Attrs& attrs) {
  Json object = Json::object();
  for (const auto& [name, value] : attrs.items()) {
    const auto* text = std::get_if<std::string>(&value);
    if (text != nullptr && !is_utf8(*text))
      return error(Code::kInvalid,
                   "attribute '{}': got a text that is not UTF-8, expected one that JSON can hold", name);
    object[name] = std::visit(ToJson{}, value);
  }
  return object;
}

Result<Attrs> attrs_from_json(const OpDef& def, const Json& json) {
  if (!json.is_object())
    return error(Code::kCorrupt, "[op {}] attributes: got {}, expected an object", def.name,
                 json.type_name());
  Attrs attrs;
  for (const auto& [name, item] : json.items()) {
    const AttrSpec* spec = nullptr;
    for (const AttrSpec& s : def.attrs)
      if (s.name == name) spec = &s;
    if (spec == nullptr) return error(Code::kCorrupt, "[op {}] unknown attribute: got '{}'", def.name, name);
    auto value = value_from(spec->default_value, item);
    if (!value)
      return error(Code::kCorrupt, "[op {}] attribute '{}' has the wrong type: got {}", def.name, name,
                   item.type_name());
    attrs.set(name, std::move(*value));
  }
  return complete_attrs(def, std::move(attrs));
}

}  // namespace trireme::op::detail
