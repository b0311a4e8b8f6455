// run_leased: the life of a rank under a rule whose workers go at their own pace (every rule but bsp):
// workers take units from the coordinator, step by the rule, and meet between rounds for evaluation and
// checkpoints.
#pragma once

#include "trireme/train/roles.h"
#include "trireme/train/start.h"

namespace trireme::train {

// `group`: all ranks, workers first. `workers`: the workers alone; null on a rank that is a server only.
runtime::Task<Result<Summary>> run_leased(RankContext& context, comm::Group& group, comm::Group* workers,
                                          Roles roles, StartState start);

}  // namespace trireme::train
