// Which parameters the segments of a stage read, one after the other, where replicas divide parameters
// (parallel.zero = 3).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/prepare/stages.h"

namespace trireme::prepare {

// Per graph that a stage runs, in order: the buckets whose parameters it reads, ascending.
using WeightUses = std::vector<std::vector<std::size_t>>;

// What a step runs: phases of segments, by the timetable of the first replica.
Result<WeightUses> uses_of_step(const Prepared& prepared);
// What an evaluation of so many batches runs.
WeightUses uses_of_evaluation(const Prepared& prepared, std::int64_t batches);
// The first from `from` on that reads something; uses.size(): none.
std::size_t next_use(const WeightUses& uses, std::size_t from);
// The buckets that are brought together for them, one after the other: not for who reads what the one before
// read.
std::vector<std::size_t> gathers_of(const WeightUses& uses);
// While one runs, what the next one needs is there or on its way: the most at a time, of `bytes` per bucket.
std::int64_t most_at_once(const WeightUses& uses, std::span<const std::int64_t> bytes);

}  // namespace trireme::prepare
