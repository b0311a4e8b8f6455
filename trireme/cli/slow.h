// Stragglers from the command line: rank=R,factor=F, e.g. rank=2,factor=4.
#pragma once

#include <string>
#include <vector>

#include "trireme/start/trouble.h"

namespace trireme::cli {

Result<std::vector<start::SlowRank>> parse_slow(const std::vector<std::string>& texts);

}  // namespace trireme::cli
