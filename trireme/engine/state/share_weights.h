// Weights that the replicas on a host have in common: under Hogwild, and in lock step (own_update.h). Where
// the model is cut, those that hold one part of it have that part in common.
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
