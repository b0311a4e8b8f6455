// Reads of a peer's memory: ordered against everything the peer writes there, and done before it leaves.
#pragma once

#include <utility>
#include <vector>

#include "trireme/collective/verify_static.h"

namespace trireme::collective {

// `finished`: (rank, step) in an order in which everything may be done, as a symbolic run found it.
Status check_reads(Programs programs, const std::vector<std::pair<std::size_t, std::size_t>>& finished);

}  // namespace trireme::collective
