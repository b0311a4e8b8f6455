#include "trireme/prepare/work.h"

#include <algorithm>

#include "trireme/comm/sum/segment_sum.h"

namespace trireme::prepare {

cost::Work work_of(const exec::CompiledGraph& graph) {
  cost::Work work;
  for (std::int32_t s = 0; s < graph.num_strands(); ++s) {
    cost::Work strand = graph.strand_work(s);
    work.insert(work.end(), strand.begin(), strand.end());
  }
  return cost::joined(work);
}

PhaseWork phase_work(const exec::CompiledGraph& train) {
  const exec::Outline outline = train.outline();
  PhaseWork out;
  out.phases.resize(static_cast<std::size_t>(train.num_phases()));
  out.strands.resize(out.phases.size(), 0);
  for (std::size_t s = 0; s < outline.phase_of.size(); ++s) {
    const auto phase = static_cast<std::size_t>(outline.phase_of[s]);
    const cost::Work strand = train.strand_work(static_cast<std::int32_t>(s));
    out.phases[phase].insert(out.phases[phase].end(), strand.begin(), strand.end());
    ++out.strands[phase];
  }
  for (cost::Work& phase : out.phases) phase = cost::joined(phase);
  return out;
}

// One thread adds and copies, as fast as a core does that has the memory to itself, or its share of the
// memory gives.
StageExtras stage_extras(const Prepared& prepared, std::int32_t segment, const cost::Rates& rates) {
  StageExtras out;
  if (rates.op_times == nullptr) return out;
  const plan::Plan& plan = prepared.plan;
  const double traffic = 1 / (rates.machine.bytes_per_second * rates.machine.speed);
  const double add = std::max(4 * rates.comm.reduce_seconds_per_byte / rates.machine.speed, 12 * traffic);
  const comm::Counter counter = comm::count_up(plan.owners[0], plan.logical_shards);
  double adds = 0, copies = 0;
  for (const auto& steps : counter.after)
    for (const comm::CounterStep& step : steps) (step.adds ? adds : copies) += 1;
  const double micro_batches = std::max<double>(1, static_cast<double>(counter.after.size()));
  for (const plan::Bucket& b : prepared.whole_buckets) {
    if (std::find(b.segments.begin(), b.segments.end(), segment) == b.segments.end()) continue;
    const double elems = static_cast<double>(b.num_elems);
    out.add_seconds +=
        b.is_coded() ? 8 * elems * traffic : elems * (adds * add + copies * 8 * traffic) / micro_batches;
    out.add_seconds += to_seconds(rates.machine.op_overhead_ns);
  }
  // A thread of its own moves messages; where all cores compute, they wait for it.
  if (rates.machine.cores > plan.shard_threads) return out;
  out.message_seconds = to_seconds(rates.comm.link.message_overhead_ns);
  if (rates.comm.peer_bytes_per_second > 0) out.copy_seconds = 1 / rates.comm.peer_bytes_per_second;
  return out;
}

}  // namespace trireme::prepare
