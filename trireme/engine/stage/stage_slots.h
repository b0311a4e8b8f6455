// StageSlot: a micro-batch that is in flight on a stage of a pipeline: the Executions of a virtual stage's
// segments, and the values between them. Internal to engine.
#pragma once

#include <memory>
#include <vector>

#include "trireme/engine/stage/stage_gradients.h"
#include "trireme/engine/weights.h"
#include "trireme/prepare/stages.h"

namespace trireme::engine {

// A value on its way between segments: where it lies in a slot, and what its messages are called.
struct SlotValue {
  const parallel::Crossing* value = nullptr;
  std::size_t number = 0;  // of all crossings of the model
  Tensor memory;
};

// A run of segments of a chain: those of a virtual stage.
struct VirtualStage {
  std::int32_t number = 0;  // along the chain
  std::vector<const prepare::StageSegment*> segments;
  std::int32_t first() const { return segments.front()->index; }
  std::int32_t last() const { return segments.back()->index; }
};

struct StageSlot {
  std::vector<std::unique_ptr<exec::Execution>> executions;  // per segment of the virtual stage
  std::vector<SlotValue> received, sent;                     // forward
  std::vector<SlotValue> received_back, sent_back;           // gradients
  std::int64_t kept_bytes = 0;                               // of all these
};

struct StageSlotOptions {
  const prepare::Prepared* prepared = nullptr;
  Weights* weights = nullptr;
  const StageGradients* gradients = nullptr;
  Buffer scratch = {};
  exec::HostOps host_ops = {};
};
Result<StageSlot> make_stage_slot(runtime::Runtime& rt, const StageSlotOptions& options,
                                  const VirtualStage& stage);

}  // namespace trireme::engine
