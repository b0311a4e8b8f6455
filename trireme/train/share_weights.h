// Weights that all workers of a host have in common (Hogwild).
#pragma once

#include "trireme/comm/group.h"
#include "trireme/plan/plan.h"

namespace trireme::train {

// One vector per bucket, the same memory on every worker. kInvalid where workers do not share memory.
runtime::Task<Result<std::vector<Tensor>>> share_weights(comm::Group& workers, const plan::Plan& plan);

}  // namespace trireme::train
