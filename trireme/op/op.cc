#include "trireme/op/op.h"

#include <algorithm>

namespace trireme::op {
namespace {
constexpr std::string_view kTypeNames[] = {"an int", "a float", "a bool", "a text", "ints", "a dtype"};

std::string_view type_name(const AttrValue& v) { return kTypeNames[v.index()]; }

template <typename T>
const T& get(const Attrs& attrs, std::string_view name) {
  const AttrValue* value = attrs.find(name);
  TR_CHECK(value != nullptr, "no attribute '{}'", name);
  const T* typed = std::get_if<T>(value);
  TR_CHECK(typed != nullptr, "attribute '{}' is {}", name, type_name(*value));
  return *typed;
}

std::string names_of(const std::vector<AttrSpec>& specs) {
  if (specs.empty()) return "none";
  std::string text;
  for (const AttrSpec& s : specs) text += fmt::format("{}{}", text.empty() ? "" : ", ", s.name);
  return text;
}

class Serial final : public Parallel {
 public:
  int width() const override { return 1; }
  void parallel_for(std::int64_t n,
                    const std::function<void(std::int64_t, std::int64_t, int)>& body) override {
    if (n > 0) body(0, n, 0);
  }
};
}  // namespace

const AttrValue* Attrs::find(std::string_view name) const {
  for (const auto& [key, value] : items_) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Attrs::set(std::string name, AttrValue value) {
  for (auto& [key, old] : items_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  items_.emplace_back(std::move(name), std::move(value));
}

std::int64_t Attrs::get_int(std::string_view name) const { return get<std::int64_t>(*this, name); }
double Attrs::get_float(std::string_view name) const { return get<double>(*this, name); }
bool Attrs::get_bool(std::string_view name) const { return get<bool>(*this, name); }
const std::string& Attrs::get_text(std::string_view name) const { return get<std::string>(*this, name); }
const std::vector<std::int64_t>& Attrs::get_ints(std::string_view name) const {
  return get<std::vector<std::int64_t>>(*this, name);
}
DType Attrs::get_dtype(std::string_view name) const { return get<DType>(*this, name); }

Parallel& serial() {
  static Serial one;
  return one;
}

const OpDef* find_op(std::string_view name) {
  const auto table = op_table();
  const auto it = std::lower_bound(table.begin(), table.end(), name,
                                   [](const OpDef* def, std::string_view n) { return def->name < n; });
  return it != table.end() && (*it)->name == name ? *it : nullptr;
}

Result<Attrs> complete_attrs(const OpDef& def, Attrs attrs) {
  for (const auto& [name, value] : attrs.items()) {
    const auto spec = std::find_if(def.attrs.begin(), def.attrs.end(),
                                   [&name = name](const AttrSpec& s) { return s.name == name; });
    if (spec == def.attrs.end()) {
      return error(Code::kInvalid, "[op {}] unknown attribute: got '{}', expected one of: {}", def.name, name,
                   names_of(def.attrs));
    }
    if (value.index() != spec->default_value.index()) {
      return error(Code::kInvalid, "[op {}] attribute '{}' has the wrong type: got {}, expected {}", def.name,
                   name, type_name(value), type_name(spec->default_value));
    }
  }
  Attrs complete;
  for (const AttrSpec& spec : def.attrs) {
    const AttrValue* value = attrs.find(spec.name);
    if (value == nullptr && spec.required) {
      return error(Code::kInvalid, "[op {}] attribute '{}' is missing: got none, expected {} ({})", def.name,
                   spec.name, type_name(spec.default_value), spec.doc);
    }
    complete.set(std::string(spec.name), value ? *value : spec.default_value);
  }
  return complete;
}

Result<std::vector<TensorType>> infer_types(const OpDef& def, std::span<const TensorType> in,
                                            const Attrs& completed) {
  if (def.num_inputs >= 0 && static_cast<int>(in.size()) != def.num_inputs) {
    return error(Code::kInvalid, "[op {}] wrong number of inputs: got {}, expected {}", def.name, in.size(),
                 def.num_inputs);
  }
  TR_ASSIGN_OR_RETURN(const Attrs attrs, complete_attrs(def, completed));
  auto out = def.infer(in, attrs);
  if (!out.ok()) return out.status().with_prefix(fmt::format("[op {}] ", def.name));
  TR_CHECK(def.num_outputs < 0 || static_cast<int>(out->size()) == def.num_outputs,
           "op {} inferred {} outputs", def.name, out->size());
  return out;
}

}  // namespace trireme::op
