// Times and rates as people write them: "25us", "1.5 ms", "10gbit", "1.25GB/s".
#pragma once

#include <string_view>

#include "trireme/base/status.h"
#include "trireme/base/units.h"

namespace trireme::cost {

Result<TimeNs> parse_duration(std::string_view text);  // ns, us, ms, s, min
Result<double> parse_bandwidth(
    std::string_view text);  // bytes per second: kbit, mbit, gbit (1000s), MB/s, GB/s

}  // namespace trireme::cost
