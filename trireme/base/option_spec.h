// OptionSpec: one thing that a row of a table can be told: a codec, an agreement rule, a model. The row lists
// its options, whoever implements the row reads them through the same specs, and job keys, their checks,
// their docs and `inspect` follow from the list.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace trireme {

using OptionValue = std::variant<std::int64_t, double, bool, std::string>;

// Which values of an option make sense by themselves.
struct OptionRange {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above_least = false, below_most = false;    // that end is itself outside
  std::span<const std::string_view> choices = {};  // not empty: one of these, numbers as they are written
  std::string_view words = {};                     // how messages say it; empty: made of the above

  bool holds(const OptionValue& value) const;
  std::string text() const;  // "between 0 and 1024", "one of: random, ring"
};

struct OptionSpec {
  const char* name = "";
  std::variant<std::int64_t, double, bool, std::string_view> default_value = std::int64_t{0};  // and the type
  const char* doc = "";
  OptionRange range = {};
  bool decides_bits = true;   // false: it may differ when a run is resumed
  const char* hint = "";      // what to do instead where a row does not have it
  const char* old_name = "";  // not empty: its name in older files, which still works

  constexpr OptionSpec with_default(decltype(default_value) value) const {
    OptionSpec other = *this;
    other.default_value = value;
    return other;
  }
  OptionValue initial() const;
};

// The spec called `name`, or null.
const OptionSpec* find_option(std::span<const OptionSpec> options, std::string_view name);
// "period, outer": for messages.
std::string names_of(std::span<const OptionSpec> options);

// Options that do not go together: which of them is refused, and what is expected of it.
struct OptionFault {
  std::string_view option;
  std::string expected;
};

// The options that were given, by name; whoever reads one names its spec, whose default stands for the rest.
class OptionValues {
 public:
  OptionValues() = default;
  OptionValues(std::initializer_list<std::pair<const std::string, OptionValue>> values) : values_(values) {}

  template <class T>
  void set(std::string_view name, T value) {
    if constexpr (std::is_same_v<T, bool>)
      put(name, value);
    else if constexpr (std::is_integral_v<T>)
      put(name, static_cast<std::int64_t>(value));
    else if constexpr (std::is_floating_point_v<T>)
      put(name, static_cast<double>(value));
    else if constexpr (std::is_same_v<T, OptionValue>)
      put(name, std::move(value));
    else
      put(name, std::string(value));
  }
  void erase(std::string_view name);
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const OptionValue* find(std::string_view name) const;
  bool empty() const { return values_.empty(); }

  // A value of another type than the spec's is the caller's mistake, except an integer for a number.
  std::int64_t integer(const OptionSpec& spec) const;
  double number(const OptionSpec& spec) const;
  bool flag(const OptionSpec& spec) const;
  std::string text(const OptionSpec& spec) const;

  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  friend bool operator==(const OptionValues&, const OptionValues&) = default;

 private:
  void put(std::string_view name, OptionValue value);
  OptionValue get(const OptionSpec& spec) const;
  std::map<std::string, OptionValue, std::less<>> values_;
};

}  // namespace trireme
