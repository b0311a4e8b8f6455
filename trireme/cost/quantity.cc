#include "trireme/cost/quantity.h"

#include <array>
#include <charconv>
#include <string>

namespace trireme::cost {
namespace {

struct Unit {
  const char* name;
  double scale;
};

constexpr std::array<Unit, 5> kTimes{{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}}};
constexpr std::array<Unit, 11> kRates{{{"kbit", 1e3 / 8},
                                       {"mbit", 1e6 / 8},
                                       {"gbit", 1e9 / 8},
                                       {"kbit/s", 1e3 / 8},
                                       {"mbit/s", 1e6 / 8},
                                       {"gbit/s", 1e9 / 8},
                                       {"b/s", 1},
                                       {"kb/s", 1e3},
                                       {"mb/s", 1e6},
                                       {"gb/s", 1e9},
                                       {"tb/s", 1e12}}};

// The number and the scale of its unit; false: not of that form.
template <std::size_t N>
bool parse(std::string_view text, const std::array<Unit, N>& units, double& out) {
  double value = 0;
  const auto [at, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit(at, text.data() + text.size());
  while (!unit.empty() && unit.front() == ' ') unit.erase(0, 1);
  for (char& c : unit)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (failure != std::errc() || !(value >= 0)) return false;
  for (const Unit& u : units)
    if (unit == u.name) {
      out = value * u.scale;
      return true;
    }
  return false;
}

}  // namespace

Result<TimeNs> parse_duration(std::string_view text) {
  double ns = 0;
  if (!parse(text, kTimes, ns) || ns > 9e18)
    return error(Code::kInvalid, "[cost] not a time: got '{}', expected e.g. 800ns, 25us, 1.5ms, 2s", text);
  return static_cast<TimeNs>(ns + 0.5);
}

Result<double> parse_bandwidth(std::string_view text) {
  double rate = 0;
  if (!parse(text, kRates, rate) || rate <= 0 || rate > 1e18)
    return error(Code::kInvalid, "[cost] not a bandwidth: got '{}', expected e.g. 100mbit, 10gbit, 1.25GB/s",
                 text);
  return rate;
}

}  // namespace trireme::cost
