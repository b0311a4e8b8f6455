// Random nets, cut in random ways over one axis or two: ranks give what the whole graph gives.
#pragma once

#include <cstdint>

namespace trireme::parallel::testing {

// Makes `num_seeds` nets, from `first_seed` on. At least two in three of them have exchanges.
void expect_random_cuts_give_the_whole(std::uint64_t first_seed, int num_seeds);

}  // namespace trireme::parallel::testing
