#include "trireme/codec/coding.h"

#include <algorithm>
#include <cmath>

namespace trireme::codec {

double Coding::fraction_at(std::int64_t exchange) const {
  constexpr double kFirst = 0.25;
  const OptionSpec* spec = row == nullptr ? nullptr : find_option(row->options, kFraction.name);
  if (spec == nullptr) return 1;
  const double fraction = options.number(*spec);
  const std::int64_t at = std::max<std::int64_t>(exchange - dense_steps, 0);
  if (at >= warmup_steps || fraction >= kFirst) return fraction;
  return kFirst * std::pow(fraction / kFirst, static_cast<double>(at) / static_cast<double>(warmup_steps));
}

Options Coding::options_at(std::int64_t exchange) const {
  Options now = options;
  if (row != nullptr && find_option(row->options, kFraction.name) != nullptr)
    now.set(kFraction.name, fraction_at(exchange));
  return now;
}

}  // namespace trireme::codec
