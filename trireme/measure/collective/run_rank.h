// Ranks of ours under measurement, each with a Runtime as a rank of a job has it.
#pragma once

#include <optional>

#include "trireme/measure/collective/rank.h"

namespace trireme::measure {

// This process is the rank options.connect.rank, until the driver says that it is over. `spin_us`: how long
// it spins before it blocks, if not as the ranks of a job do.
Status run_rank(RankOptions options, std::optional<double> spin_us);

// All ranks as threads of this process, which share memory; the first failure.
Status run_ranks_in_threads(const RankOptions& options, std::optional<double> spin_us);

}  // namespace trireme::measure
