// `trireme simulate allreduce` and its like: subcommands of simulate.
#pragma once

#include <functional>
#include <optional>

#include "trireme/cli/command.h"

namespace trireme::cli {

// Gives nothing when none of the subcommands was used.
std::function<std::optional<int>()> add_simulate_collective(Options& simulate);

}  // namespace trireme::cli
