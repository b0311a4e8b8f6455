// run_leased: the life of a rank under a rule whose workers go at their own pace (every rule but bsp):
// workers take units from the coordinator, step by the rule, and meet between rounds for evaluation and
// checkpoints.
#pragma once

#include "trireme/job/roles.h"
#include "trireme/record/summary.h"
#include "trireme/train/start.h"

namespace trireme::train {

// Letters under way go into memory of the run: what is put into `keep` stays until the group was left.
using KeepUntilLeft = std::vector<std::shared_ptr<void>>;

// `group`: all ranks, workers first.
runtime::Task<Result<record::Summary>> run_leased(RankContext& context, comm::Group& group, StartState start,
                                                  KeepUntilLeft& keep);

}  // namespace trireme::train
