// Lists of sizes and worlds as the command line writes them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/status.h"
#include "trireme/collective/schedule.h"

namespace trireme::cli::bench {

// "1K,64K", "1K..64M" (times 4 each), "1K..64M*2" (times 2), and lists of these; K, M, G are powers of 1024.
// Ascending, without repeats; every size is a multiple of 4 (one f32).
Result<std::vector<std::uint64_t>> parse_sizes(std::string_view text);

// "2,4,8": positive, ascending, without repeats.
Result<std::vector<int>> parse_worlds(std::string_view text);

// "allreduce", "reduce_scatter" or "reduce-scatter"... Not neighbours: it has no size of its own.
Result<collective::Kind> parse_kind(std::string_view text);
std::vector<std::string> kind_names();

// "64 KB", "1 MB": exact sizes in the units people ask for them.
std::string short_bytes(std::uint64_t bytes);

}  // namespace trireme::cli::bench
