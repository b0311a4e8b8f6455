// Weights that all workers of a host have in common: under Hogwild, and in lock step (own_update.h).
#pragma once

#include "trireme/comm/group.h"
#include "trireme/model/optimizer.h"
#include "trireme/plan/plan.h"

namespace trireme::engine {

// One vector per bucket, the same memory on every worker. kInvalid where workers do not share memory.
runtime::Task<Result<std::vector<Tensor>>> share_weights(runtime::Runtime& rt, comm::Group& workers,
                                                         const plan::Plan& plan);

// The optimiser's states in one vector (state_layout), zeros; null where there are none.
runtime::Task<Result<Tensor>> share_states(runtime::Runtime& rt, comm::Group& workers,
                                           const std::vector<model::StateVariable>& states);

}  // namespace trireme::engine
