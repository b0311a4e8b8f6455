// Balance: how many logical shards each replica owns, by how fast it is. Pure.
#pragma once

#include <span>
#include <vector>

#include "trireme/collective/schedule.h"
#include "trireme/parallel/mesh.h"

namespace trireme::plan {

// A worker runs `at_once` shards together; such a wave takes `wave_seconds`, whether it is full or not.
struct WorkerSpeed {
  double wave_seconds = 1;
  std::int32_t at_once = 1;
};

// All ranks of a replica compute every shard of its run: it is as fast as its slowest rank, and runs as many
// shards at once as the one that can run fewest. `by_rank`: of the ranks of the mesh.
std::vector<WorkerSpeed> replica_speeds(std::span<const WorkerSpeed> by_rank, const parallel::Mesh& mesh);

// Runs in the order of replicas, at least one shard each, so that the slowest ends as early as possible. Of
// equally good ones, lower replicas have more shards. Precondition: at least as many shards as replicas.
std::vector<collective::LeafRun> cut_by_speed(std::int32_t num_shards, std::span<const WorkerSpeed> replicas);

// When the last replica has computed its run.
double slowest_seconds(std::span<const collective::LeafRun> runs, std::span<const WorkerSpeed> replicas);

}  // namespace trireme::plan
