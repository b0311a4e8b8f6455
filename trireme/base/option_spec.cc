#include "trireme/base/option_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trireme/base/check.h"

namespace trireme {
namespace {

std::string written(const OptionValue& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

std::optional<double> as_number(const OptionValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return std::nullopt;
}

}  // namespace

bool OptionRange::holds(const OptionValue& value) const {
  if (!choices.empty()) return std::ranges::find(choices, written(value)) != choices.end();
  const std::optional<double> number = as_number(value);
  if (!number) return true;
  if (!std::isfinite(*number)) return false;
  return (above_least ? *number > least : *number >= least) &&
         (below_most ? *number < most : *number <= most);
}

std::string OptionRange::text() const {
  if (!words.empty()) return std::string(words);
  if (choices.empty()) return fmt::format("between {:.0f} and {:.0f}", least, most);
  return fmt::format("one of: {}", fmt::join(choices, ", "));
}

OptionValue OptionSpec::initial() const {
  if (const auto* text = std::get_if<std::string_view>(&default_value)) return std::string(*text);
  if (const auto* number = std::get_if<double>(&default_value)) return *number;
  if (const auto* flag = std::get_if<bool>(&default_value)) return *flag;
  return std::get<std::int64_t>(default_value);
}

const OptionSpec* find_option(std::span<const OptionSpec> options, std::string_view name) {
  const auto at = std::ranges::find_if(options, [&](const OptionSpec& spec) { return spec.name == name; });
  return at == options.end() ? nullptr : &*at;
}

std::string names_of(std::span<const OptionSpec> options) {
  std::string names;
  for (const OptionSpec& spec : options) names += fmt::format("{}{}", names.empty() ? "" : ", ", spec.name);
  return names;
}

void OptionValues::put(std::string_view name, OptionValue value) {
  values_.insert_or_assign(std::string(name), std::move(value));
}

void OptionValues::erase(std::string_view name) {
  if (const auto at = values_.find(name); at != values_.end()) values_.erase(at);
}

const OptionValue* OptionValues::find(std::string_view name) const {
  const auto at = values_.find(name);
  return at == values_.end() ? nullptr : &at->second;
}

OptionValue OptionValues::get(const OptionSpec& spec) const {
  const OptionValue* given = find(spec.name);
  return given != nullptr ? *given : spec.initial();
}

std::int64_t OptionValues::integer(const OptionSpec& spec) const {
  const OptionValue value = get(spec);
  const auto* integer = std::get_if<std::int64_t>(&value);
  TR_CHECK(integer != nullptr, "option '{}' is {}, no integer", spec.name, written(value));
  return *integer;
}

double OptionValues::number(const OptionSpec& spec) const {
  const OptionValue value = get(spec);
  const std::optional<double> number = as_number(value);
  TR_CHECK(number.has_value(), "option '{}' is {}, no number", spec.name, written(value));
  return *number;
}

bool OptionValues::flag(const OptionSpec& spec) const {
  const OptionValue value = get(spec);
  const auto* flag = std::get_if<bool>(&value);
  TR_CHECK(flag != nullptr, "option '{}' is {}, expected true or false", spec.name, written(value));
  return *flag;
}

std::string OptionValues::text(const OptionSpec& spec) const {
  const OptionValue value = get(spec);
  const auto* text = std::get_if<std::string>(&value);
  TR_CHECK(text != nullptr, "option '{}' is {}, no string", spec.name, written(value));
  return *text;
}

}  // namespace trireme
