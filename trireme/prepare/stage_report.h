// What a job's pipeline is, known without running it: what every stage computes, holds and sends, and what
// its steps wait for. Nothing is computed; the graphs are compiled as for training.
#pragma once

#include <string>
#include <vector>

#include "trireme/parallel/pipeline/price.h"
#include "trireme/prepare/prepared.h"

namespace trireme::prepare {

// A run of segments that a stage has.
struct VirtualStageReport {
  int number = 0;  // along the model
  std::string first_layer, last_layer;
  std::int32_t num_layers = 0, num_segments = 0;
  parallel::PhaseTimes seconds;              // of a micro-batch
  double forward_bytes = 0, back_bytes = 0;  // sent to the next one and to the one before, per micro-batch
};

// What a stage could use more of: its machine or a link that takes longer than it; or the cuts at its ends
// lie elsewhere than without train.memory_limit.
enum class StageLimit { kCompute, kLink, kMemory };
const char* name_of(StageLimit limit);

struct StageReport {
  std::vector<VirtualStageReport> runs;  // several where the timetable is interleaved
  std::int64_t state_bytes = 0;          // parameters, frozen ones too, statistics and optimizer state
  std::int64_t kept_bytes = 0;           // by the micro-batches in flight
  std::int64_t total_bytes = 0;          // in tensors, as memory_estimate.h says
  int in_flight = 0;                     // micro-batches, at most
  int weight_versions = 1;
  StageLimit limit = StageLimit::kCompute;
  parallel::PhaseTimes seconds() const;  // of a micro-batch, all runs
};

struct StagesReport {
  parallel::PricedTimetable priced;
  std::vector<StageReport> stages;
  double unlinked_seconds = 0;   // of a step, if messages took no time
  double unlimited_seconds = 0;  // of a step, by the cuts without a memory limit
  int slowest = 0;               // the stage that computes longest
  // Steps wait for messages more than for the slowest stage: they would take a tenth less without.
  bool waits_for_links() const;
  bool waits_for_memory() const;  // steps would be shorter without the limit
  StageLimit limit() const;
};

// It is that of the first tile and of the replica with most micro-batches. The options have as
// many stages as the job's mesh, two or more. kInvalid: the model cannot be cut so.
Result<StagesReport> report_stages(const job::Job& job, const model::ModelInput& input,
                                   PrepareOptions options);

}  // namespace trireme::prepare
