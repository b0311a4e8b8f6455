// Checks of numbers on the command line that say what they want.
#pragma once

#include <cstdint>

#include "trireme/cli/options.h"

namespace trireme::cli {

Check integer_in(std::int64_t least, std::int64_t most);
Check number_in(double least, double most);
Check above_zero();
Check zero_or_more();

}  // namespace trireme::cli
