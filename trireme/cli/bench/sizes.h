// Lists of sizes and worlds as the command line writes them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/status.h"

namespace trireme::cli::bench {

// "1K,64K", "1K..64M" (times 4 each), "1K..64M*2" (times 2), and lists of these; K, M, G are powers of 1024.
// Ascending, without repeats; every size is a multiple of 4 (one f32).
Result<std::vector<std::uint64_t>> parse_sizes(std::string_view text);

// "2,4,8": positive, ascending, without repeats.
Result<std::vector<int>> parse_worlds(std::string_view text);

// "64 KB", "1 MB": exact sizes in the units people ask for them.
std::string short_bytes(std::uint64_t bytes);

}  // namespace trireme::cli::bench
