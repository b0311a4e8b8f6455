// Initial values of the pieces of parameters that a rank holds: the same elements that the whole would have.
#pragma once

#include <vector>

#include "trireme/engine/state/held_state.h"
#include "trireme/model/parameter.h"
#include "trireme/runtime/runtime.h"

namespace trireme::engine {

// On the pool, all its threads. Parameters that the holding does not have are left out, and what it has
// beside them stays. An orthogonal matrix is made as a whole where a piece of it is held.
runtime::Task<void> initialise_pieces(runtime::Runtime& rt, const HeldState& holding,
                                      std::vector<model::Parameter> parameters, std::uint64_t seed);

}  // namespace trireme::engine
