// Writes every conformance case as JSON to standard output, for tests/op_records/record.py, which computes
// outputs and gradients with PyTorch and NumPy and writes tests/op_records/recorded/.
#include <cstdio>

#include "tests/op_records/records.h"

namespace trireme::op::testing {
namespace {

Json attr_json(const AttrValue& v) {
  if (const auto* d = std::get_if<DType>(&v)) return std::string(dtype_name(*d));
  return std::visit(
      [](const auto& x) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(x)>, DType>) {
          return nullptr;
        } else {
          return x;
        }
      },
      v);
}

Json tensor_json(const Tensor& t) {
  return {{"dtype", dtype_name(t.dtype())},
          {"shape", std::vector<std::int64_t>(t.shape().dims().begin(), t.shape().dims().end())},
          {"values", to_doubles(t)}};
}

Json case_json(const OpCase& c) {
  const Attrs attrs = *complete_attrs(*c.def, c.attrs);
  Json inputs = Json::array(), weights = Json::array(), named = Json::object();
  const auto made = make_inputs(c, DType::kF64);
  std::vector<TensorType> types;
  for (const Tensor& t : made) {
    types.push_back(t.type());
    inputs.push_back(tensor_json(t));
  }
  for (const auto& [name, value] : attrs.items()) named[name] = attr_json(value);
  const auto outputs = *infer_types(*c.def, types, attrs);
  for (std::size_t k = 0; k < outputs.size(); ++k)
    weights.push_back(is_floating(outputs[k].dtype) ? tensor_json(output_weights(outputs[k], k)) : Json());
  return {{"name", case_name(c)},
          {"op", c.def->name},
          {"family", c.def->family},
          {"attrs", named},
          {"inputs", inputs},
          {"weights", weights},
          {"key", input_key(c)},
          {"has_grad", c.def->grad != nullptr},
          {"mutated", c.def->mutated_inputs}};
}

}  // namespace
}  // namespace trireme::op::testing

int main() {
  using namespace trireme::op::testing;
  trireme::Json all = trireme::Json::array();
  for (const OpCase& c : op_cases()) {
    if (is_recordable(c)) all.push_back(case_json(c));
  }
  std::fputs((all.dump() + "\n").c_str(), stdout);
  return 0;
}
