#include "trireme/plan/balance.h"

#include <algorithm>

#include "trireme/base/check.h"

namespace trireme::plan {
namespace {

double seconds_for(std::int32_t shards, const WorkerSpeed& w) {
  const std::int32_t at_once = std::max(1, w.at_once);
  const std::int32_t waves = (shards + at_once - 1) / at_once;
  return waves * w.wave_seconds;
}

}  // namespace

std::vector<WorkerSpeed> replica_speeds(std::span<const WorkerSpeed> by_rank, const parallel::Mesh& mesh) {
  TR_CHECK(static_cast<int>(by_rank.size()) == mesh.num_ranks(), "{} speeds for {} ranks", by_rank.size(),
           mesh.num_ranks());
  std::vector<WorkerSpeed> out(static_cast<std::size_t>(mesh.num_replicas()));
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    const int replica = mesh.replica_of(rank);
    const WorkerSpeed& one = by_rank[static_cast<std::size_t>(rank)];
    WorkerSpeed& all = out[static_cast<std::size_t>(replica)];
    if (mesh.speaker_of(replica) == rank) all = one;
    all.wave_seconds = std::max(all.wave_seconds, one.wave_seconds);
    all.at_once = std::min(all.at_once, one.at_once);
  }
  return out;
}

// The times grow with the number of shards, so giving each further shard to whoever would end first with it
// is optimal.
std::vector<collective::LeafRun> cut_by_speed(std::int32_t num_shards,
                                              std::span<const WorkerSpeed> replicas) {
  TR_CHECK(num_shards >= static_cast<std::int32_t>(replicas.size()), "{} shards for {} replicas", num_shards,
           replicas.size());
  std::vector<std::int32_t> counts(replicas.size(), 1);
  for (auto left = num_shards - static_cast<std::int32_t>(replicas.size()); left > 0; --left) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < replicas.size(); ++i)
      if (seconds_for(counts[i] + 1, replicas[i]) < seconds_for(counts[best] + 1, replicas[best])) best = i;
    ++counts[best];
  }
  std::vector<collective::LeafRun> runs;
  std::int32_t next = 0;
  for (const std::int32_t count : counts) {
    runs.push_back({next, count});
    next += count;
  }
  return runs;
}

double slowest_seconds(std::span<const collective::LeafRun> runs, std::span<const WorkerSpeed> replicas) {
  double slowest = 0;
  for (std::size_t i = 0; i < runs.size(); ++i)
    slowest = std::max(slowest, seconds_for(runs[i].count, replicas[i]));
  return slowest;
}

}  // namespace trireme::plan
