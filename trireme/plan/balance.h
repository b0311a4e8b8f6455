// Balance: how many logical shards each worker owns, by how fast it is. Pure.
#pragma once

#include <span>
#include <vector>

#include "trireme/collective/schedule.h"

namespace trireme::plan {

// A worker runs `at_once` shards together; such a wave takes `wave_seconds`, whether it is full or not.
struct WorkerSpeed {
  double wave_seconds = 1;
  std::int32_t at_once = 1;
};

// Runs in worker order, at least one shard each, so that the slowest worker ends as early as possible. Of
// equally good ones, lower ranks have more shards. Precondition: at least as many shards as workers.
std::vector<collective::LeafRun> cut_by_speed(std::int32_t num_shards, std::span<const WorkerSpeed> workers);

// When the last worker has computed its run.
double slowest_seconds(std::span<const collective::LeafRun> runs, std::span<const WorkerSpeed> workers);

}  // namespace trireme::plan
