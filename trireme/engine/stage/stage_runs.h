// StageRuns: the micro-batches of a step on one stage of a pipeline, in the order of its timetable.
//
// One action computes at a time. What an action needs from a neighbour is asked for as early as there is room
// for it, and what it gives to one leaves while the next action computes; a micro-batch gives its slot to a
// later one when its gradients are added and everything it sends has left.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "trireme/comm/host_ops.h"
#include "trireme/engine/stage/stage_slots.h"
#include "trireme/engine/step.h"
#include "trireme/engine/vote.h"
#include "trireme/prepare/batch.h"

namespace trireme::engine {

struct StageRunsOptions {
  const prepare::Prepared* prepared = nullptr;
  Weights* weights = nullptr;
  const BucketSums* sums = nullptr;
  comm::Group* line = nullptr;  // along the stage axis; null: all segments are here
  exec::HostOps host_ops = {};
  Vote* vote = nullptr;  // what is learned of losses goes there
  const StepTrace* trace = nullptr;
  bool skips = false;  // a loss that is not a number is not looked for
  // The gradients of a segment are there, of all micro-batches of this rank.
  std::function<void(std::int32_t segment)> on_done;
};

// On the loop of one Runtime; all that the options point to outlives it.
class StageRuns {
 public:
  StageRuns(runtime::Runtime& rt, StageRunsOptions options) : rt_(rt), o_(std::move(options)) {}

  // The micro-batches of a replica: its run of logical shards.
  Status take_shards(collective::LeafRun run);
  // All of them; ends when nothing is under way.
  runtime::Task<Status> run(std::int64_t step, std::span<const prepare::BatchTensors> batch);
  // After a failure of this rank or another: messages end with the group's verdict.
  runtime::Task<void> drained();
  // A micro-batch whose loss is not a number, or -1. Its gradient does not leave, so no rank ends a sum
  // of the step.
  int broken_place() const { return broken_; }
  TimeNs waited_ns() const { return waited_; }  // in the last run, for neighbours

 private:
  using Index = std::size_t;  // of an action
  struct Own {                // a virtual stage of this rank
    VirtualStage stage;
    std::vector<StageSlot> slots;
  };
  // What is known of an action before the run, and what has come of it.
  struct ActionState {
    std::size_t own = 0, slot = 0;
    Index forward = 0, backward = 0;  // of its micro-batch
    std::ptrdiff_t room_from = -1;    // F: the action that gives the slot back; -1: nobody had it
    std::size_t coming = 0;           // messages that it waits for
  };
  const prepare::Stages& stages() const { return *o_.prepared->stages; }
  const parallel::TimetableAction& action(Index i) const { return actions_[i]; }
  StageSlot& slot_of(Index i) { return own_[states_[i].own].slots[states_[i].slot]; }
  Status make_virtual_stages();
  Status make_gradients();
  Status make_slots();
  void give_slots();

  void begin(std::int64_t step);
  void ask();  // for what actions need and there is room for
  bool has_room(Index i) const;
  runtime::Task<void> receive(Index i, SlotValue value, bool back);
  runtime::Task<void> send(Index i, SlotValue value, bool back);
  comm::Call message(Index i, const SlotValue& value, bool back, bool sends) const;
  runtime::Task<void> wait_for_change();
  void changed();
  runtime::Task<Status> wait_until_ready(Index i);
  runtime::Task<Status> compute(Index i, const prepare::BatchTensors& batch);
  runtime::Task<Status> run_phase(Index i, const prepare::BatchTensors& batch);
  Status collect(const exec::Execution& execution, const prepare::StageSegment& segment, std::size_t bucket,
                 const Tensor& into) const;
  Tensor made(std::size_t bucket, std::int32_t segment) const;
  runtime::Task<void> keep(std::size_t bucket, std::size_t place);
  runtime::Task<Status> add_gradients(Index i, std::size_t segment);
  Status look_at_loss(Index i, const exec::Execution& execution, const prepare::StageSegment& segment);
  void spawn_sends(Index i);

  runtime::Runtime& rt_;
  const StageRunsOptions o_;
  std::vector<Own> own_;
  Buffer scratch_;
  // Where backward writes, per bucket that is not added as micro-batches come: encoders keep something of
  // each of them.
  std::vector<Tensor> gradients_;
  parallel::StageActions actions_;  // updates left out
  std::vector<ActionState> states_;
  std::size_t num_micro_batches_ = 0;
  bool splits_weights_ = false;  // else B and W are one action, and gradients leave behind it

  // The step under way.
  std::int64_t step_ = 0;
  std::vector<std::size_t> leaving_;  // per action: messages that have not left
  std::vector<bool> done_;
  Index next_ = 0, asked_forward_ = 0, asked_back_ = 0;
  std::size_t under_way_ = 0;  // messages
  Status failure_;
  int broken_ = -1;
  TimeNs waited_ = 0;
  std::unique_ptr<runtime::OneShot<bool>> change_;  // while somebody waits
};

}  // namespace trireme::engine
