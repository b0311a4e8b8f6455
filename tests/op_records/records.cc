#include "tests/op_records/records.h"

#include <fmt/format.h>

#include "trireme/base/hash.h"

namespace trireme::op::testing {

bool is_recordable(const OpCase& c) { return c.def->reference != nullptr; }

std::string input_key(const OpCase& c) {
  std::string text = case_name(c);
  for (const Tensor& t : make_inputs(c, DType::kF64)) {
    text += t.type().to_string();
    for (const double v : to_doubles(t)) text += fmt::format(",{}", v);
  }
  const Attrs attrs = *complete_attrs(*c.def, c.attrs);
  for (const auto& [name, value] : attrs.items()) {
    text += fmt::format(";{}=", name);
    if (const auto* i = std::get_if<std::int64_t>(&value)) text += fmt::format("{}", *i);
    if (const auto* d = std::get_if<double>(&value)) text += fmt::format("{}", *d);
    if (const auto* b = std::get_if<bool>(&value)) text += *b ? "true" : "false";
    if (const auto* s = std::get_if<std::string>(&value)) text += *s;
    if (const auto* v = std::get_if<std::vector<std::int64_t>>(&value))
      text += fmt::format("{}", fmt::join(*v, ","));
    if (const auto* t = std::get_if<DType>(&value)) text += dtype_name(*t);
  }
  return fmt::format("{:016x}", hash_text(text));
}

Tensor output_weights(const TensorType& type, std::size_t k) {
  return random_real({DType::kF64, type.shape}, 99 + static_cast<std::uint64_t>(k));
}

double folded(const std::vector<double>& values) {
  double total = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    total += values[i] * (static_cast<double>((37 * i + 11) % 101) / 50 - 1);
  return total;
}

}  // namespace trireme::op::testing
