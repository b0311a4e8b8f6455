// What every worker did, for the summary.
#pragma once

#include "trireme/comm/group.h"
#include "trireme/record/summary.h"

namespace trireme::record {

// Everybody's share, in rank order, on every rank of `group`, with who waited for whom in lock step. All
// ranks call it, once. Empty on a phantom Runtime, where no numbers travel.
runtime::Task<Result<std::vector<WorkerShare>>> gather_shares(runtime::Runtime& rt, comm::Group& group,
                                                              WorkerShare mine);

// Where workers have several ranks: `workers` by rank. The ranks of one share cores and step together, so
// times are the longest of them, and bytes add up (the memory of a worker is that of its process).
std::vector<WorkerShare> by_worker(const std::vector<WorkerShare>& shares, const std::vector<int>& workers);

}  // namespace trireme::record
