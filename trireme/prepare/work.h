// Work: the nodes of compiled graphs, for what was measured of them (cost/op_times.h).
#pragma once

#include <vector>

#include "trireme/cost/rates.h"
#include "trireme/prepare/prepared.h"

namespace trireme::prepare {

// The nodes of all strands of a graph.
cost::Work work_of(const exec::CompiledGraph& graph);

// The nodes of the phases of a segment's train graph (stages.h), and in how many strands they are.
struct PhaseWork {
  std::vector<cost::Work> phases;
  std::vector<int> strands;
};
PhaseWork phase_work(const exec::CompiledGraph& train);

// What a stage does in a step beside its phases, where op times are known: otherwise nothing, and phases are
// all that is priced.
struct StageExtras {
  double add_seconds = 0;      // per micro-batch: its gradients are added to the others of the segment
  double copy_seconds = 0;     // per byte of a message that the rank's own core copies
  double message_seconds = 0;  // per message
};
StageExtras stage_extras(const Prepared& prepared, std::int32_t segment, const cost::Rates& rates);

}  // namespace trireme::prepare
