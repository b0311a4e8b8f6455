#include "trireme/op/node_text.h"

#include <fmt/ranges.h>

namespace trireme::op {
namespace {

std::string attribute_text(const AttrValue& value) {
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
    return fmt::format("{}", fmt::join(*list, "x"));
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
  if (const auto* yes = std::get_if<bool>(&value)) return *yes ? "yes" : "no";
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  return std::string(dtype_name(std::get<DType>(value)));
}

}  // namespace

std::string node_text(const Attrs& attrs, std::span<const TensorType> types) {
  std::string text;
  for (const auto& [name, value] : attrs.items()) text += fmt::format(" {}={}", name, attribute_text(value));
  for (const TensorType& t : types) text += " " + t.to_string();
  return text;
}

}  // namespace trireme::op
