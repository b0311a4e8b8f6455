#include "trireme/prepare/stage_weights.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace trireme::prepare {
namespace {

// Frozen parameters are in no bucket: every replica has them.
std::vector<std::size_t> buckets_read(const Prepared& prepared, const exec::CompiledGraph& graph, int phase) {
  const std::set<std::string> variables = graph.variables_of_phase(phase);
  const std::vector<plan::Bucket>& buckets = prepared.plan.buckets;
  std::vector<std::size_t> read;
  for (std::size_t b = 0; b < buckets.size(); ++b)
    if (std::any_of(buckets[b].parameters.begin(), buckets[b].parameters.end(),
                    [&](const std::string& p) { return variables.contains(p); }))
      read.push_back(b);
  return read;
}

}  // namespace

Result<WeightUses> uses_of_step(const Prepared& prepared) {
  const Stages& stages = *prepared.stages;
  TR_ASSIGN_OR_RETURN(const parallel::StageActions actions,
                      parallel::build_timetable(stages.timetable, stages.stage));
  std::vector<WeightUses> of_segments;  // per phase
  for (const StageSegment& s : stages.segments) {
    WeightUses& phases = of_segments.emplace_back();
    for (int phase = 0; phase < kNumTrainPhases; ++phase)
      phases.push_back(buckets_read(prepared, *s.train, phase));
  }
  WeightUses uses;
  for (const parallel::TimetableAction& a : actions) {
    if (a.phase == parallel::Phase::kUpdate) continue;
    const std::size_t begin = uses.size();
    for (std::size_t s = 0; s < stages.segments.size(); ++s)
      if (stages.virtual_stage_of(stages.segments[s].index) == a.virtual_stage)
        uses.push_back(of_segments[s][static_cast<std::size_t>(a.phase)]);
    if (a.phase != parallel::Phase::kForward)
      std::reverse(uses.begin() + static_cast<std::ptrdiff_t>(begin), uses.end());
  }
  return uses;
}

WeightUses uses_of_evaluation(const Prepared& prepared, std::int64_t batches) {
  WeightUses of_batch, uses;
  for (const StageSegment& s : prepared.stages->segments)
    of_batch.push_back(buckets_read(prepared, *s.eval, 0));
  for (std::int64_t b = 0; b < batches; ++b) uses.insert(uses.end(), of_batch.begin(), of_batch.end());
  return uses;
}

std::size_t next_use(const WeightUses& uses, std::size_t from) {
  while (from < uses.size() && uses[from].empty()) ++from;
  return std::min(from, uses.size());
}

std::vector<std::size_t> gathers_of(const WeightUses& uses) {
  std::vector<std::size_t> all, before;
  for (const std::vector<std::size_t>& use : uses) {
    if (use.empty()) continue;
    std::set_difference(use.begin(), use.end(), before.begin(), before.end(), std::back_inserter(all));
    before = use;
  }
  return all;
}

std::int64_t most_at_once(const WeightUses& uses, std::span<const std::int64_t> bytes) {
  std::int64_t most = 0;
  for (std::size_t i = next_use(uses, 0); i < uses.size(); i = next_use(uses, i + 1)) {
    std::set<std::size_t> here(uses[i].begin(), uses[i].end());
    if (const std::size_t next = next_use(uses, i + 1); next < uses.size())
      here.insert(uses[next].begin(), uses[next].end());
    std::int64_t now = 0;
    for (const std::size_t b : here) now += bytes[b];
    most = std::max(most, now);
  }
  return most;
}

}  // namespace trireme::prepare
