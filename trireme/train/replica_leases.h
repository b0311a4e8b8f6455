// Leases of the synchronous loop: in each step every replica holds its run of logical shards. Pure.
#pragma once

#include <span>

#include "trireme/collective/schedule.h"
#include "trireme/data/leases.h"

namespace trireme::train {

// `owners`: by replica, which is the holder in the book.
Status grant_runs(data::LeaseBook& book, std::int64_t step, std::span<const collective::LeafRun> owners);
Status finish_runs(data::LeaseBook& book, std::int64_t step, std::span<const collective::LeafRun> owners);

}  // namespace trireme::train
