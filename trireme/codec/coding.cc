#include "trireme/codec/coding.h"

#include <algorithm>
#include <cmath>

namespace trireme::codec {

Options Coding::options_at(std::int64_t exchange) const {
  constexpr double kFirst = 0.25;
  Options now = options;
  const std::int64_t at = std::max<std::int64_t>(exchange - dense_steps, 0);
  if (at < warmup_steps && options.fraction < kFirst)
    now.fraction = kFirst * std::pow(options.fraction / kFirst,
                                     static_cast<double>(at) / static_cast<double>(warmup_steps));
  return now;
}

}  // namespace trireme::codec
