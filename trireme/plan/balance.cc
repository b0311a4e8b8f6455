#include "trireme/plan/balance.h"

#include <algorithm>

#include "trireme/base/check.h"

namespace trireme::plan {
namespace {

double seconds_for(std::int32_t shards, const WorkerSpeed& w) {
  const std::int32_t at_once = std::max(1, w.at_once);
  return static_cast<double>((shards + at_once - 1) / at_once) * w.wave_seconds;
}

}  // namespace

// The times grow with the number of shards, so giving each further shard to whoever would end first with it
// is optimal.
std::vector<collective::LeafRun> cut_by_speed(std::int32_t num_shards, std::span<const WorkerSpeed> workers) {
  TR_CHECK(num_shards >= static_cast<std::int32_t>(workers.size()), "{} shards for {} workers", num_shards,
           workers.size());
  std::vector<std::int32_t> counts(workers.size(), 1);
  for (auto left = num_shards - static_cast<std::int32_t>(workers.size()); left > 0; --left) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < workers.size(); ++i)
      if (seconds_for(counts[i] + 1, workers[i]) < seconds_for(counts[best] + 1, workers[best])) best = i;
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

double slowest_seconds(std::span<const collective::LeafRun> runs, std::span<const WorkerSpeed> workers) {
  double slowest = 0;
  for (std::size_t i = 0; i < runs.size(); ++i)
    slowest = std::max(slowest, seconds_for(runs[i].count, workers[i]));
  return slowest;
}

}  // namespace trireme::plan
