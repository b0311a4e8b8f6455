// StageRuns: the micro-batches of a step on one stage of a pipeline, in the order of its timetable.
//
// One action computes at a time. What an action needs from a neighbour is asked for as early as there is room
// for it, and what it gives to one leaves while the next action computes; a micro-batch gives its slot to a
// later one when its gradients are added and everything it sends has left.
//
// A pipeline that never drains begins micro-batches of later steps while it ends those of one. They go back
// by the weights that they went forward by, which are older than the newest, unless weights are not stashed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "trireme/comm/host_ops.h"
#include "trireme/engine/stage/busy_time.h"
#include "trireme/engine/stage/segment_weights.h"
#include "trireme/engine/stage/stage_gradients.h"
#include "trireme/engine/stage/stage_slots.h"
#include "trireme/engine/stage/weight_versions.h"
#include "trireme/engine/step.h"
#include "trireme/engine/vote/votes.h"
#include "trireme/prepare/batch.h"

namespace trireme::engine {

struct StageRunsOptions {
  const prepare::Prepared* prepared = nullptr;
  Weights* weights = nullptr;
  const BucketSums* sums = nullptr;
  WeightGathers* gathers = nullptr;
  comm::Group* line = nullptr;  // along the stage axis; null: all segments are here
  exec::HostOps host_ops = {};
  Votes* votes = nullptr;  // what is learned of losses goes there
  const StepTrace* trace = nullptr;
  BusyTime* busy = nullptr;
  bool skips = false;            // a loss that is not a number is not looked for
  bool several_batches = false;  // a step may have them: their gradients are added up
  // What this stage has to tell of the losses of a step is there, of all micro-batches. Of steps of several
  // batches neither this nor on_done is called.
  std::function<void()> on_losses;
  // The gradients of a segment are there, of all micro-batches of this rank.
  std::function<void(std::int32_t segment)> on_done;
};

struct StageStep {
  std::int64_t step = 0;
  std::int64_t batch = 0, num_batches = 1;  // of the step: the timetable is run for one after the other
  // Pipelines that never drain: the last step of the run and one more. The first step that is run fills them.
  std::int64_t end = 0;
  // This step's, and those of later steps that begin before it ends.
  std::span<const std::span<const prepare::BatchTensors>> batches;
};

// On the loop of one Runtime; all that the options point to outlives it.
class StageRuns {
 public:
  StageRuns(runtime::Runtime& rt, StageRunsOptions options)
      : rt_(rt), o_(std::move(options)), gradients_(rt, *o_.prepared, *o_.sums, o_.on_done) {}

  // The micro-batches of a replica: its run of logical shards.
  Status take_shards(collective::LeafRun run);
  // All of them; ends when nothing is under way, or, where the pipeline never drains, nothing of this step.
  runtime::Task<Status> run(StageStep now);
  // After a failure of this rank or another: messages end with the group's verdict. Else at the end of a step
  // of all stages.
  runtime::Task<void> drained();
  // A micro-batch whose loss is not a number, by its place in the step, or -1. Its gradient does not leave,
  // so no rank ends a sum of the step.
  int broken_place() const { return broken_; }
  // In the last step, for neighbours; and for other replicas of this stage: for weights, and until they had
  // read gradients.
  struct Waited {
    TimeNs for_neighbours = 0, for_replicas = 0;
  };
  Waited waited() const {
    return {waited_, gradients_.waited_ns() + (weights_ != nullptr ? weights_->waited_ns() : 0)};
  }
  // Where the pipeline never drains: ages of the weights that micro-batches of the last step read, in updates
  // -> how many of them.
  std::map<std::int64_t, std::int64_t> take_ages() { return std::exchange(run_.ages, {}); }
  std::int64_t kept_bytes() const;  // by all micro-batches that may be in flight at once

 private:
  using Index = std::size_t;  // of an action
  // A place for a micro-batch in flight.
  struct Place {
    StageSlot slot;
    std::int64_t begun = 0, finished = 0;  // micro-batches that went forward here, and of them those done
    std::size_t coming[2] = {0, 0};        // messages that are waited for, forward and back
    std::size_t leaving = 0;               // messages of its micro-batch that have not left
    const exec::Variables* reads = nullptr;
    std::int64_t version = 0;  // of weights, that its micro-batch reads
  };
  struct Own {  // a virtual stage of this rank
    VirtualStage stage;
    std::vector<Place> places;
  };
  // Who computes an action, or waits for a message: known before the run.
  struct Turn {
    std::size_t own = 0, place = 0;
    std::int64_t number = 0;  // micro-batches that had the place before
    parallel::TimetableAction action;
  };
  const prepare::Stages& stages() const { return *o_.prepared->stages; }
  Place& place_of(const Turn& turn) { return own_[turn.own].places[turn.place]; }
  bool never_drains() const { return run_.versions != nullptr; }
  // Micro-batches of a pipeline that never drains are numbered over the run.
  std::int64_t step_of(int micro_batch) const;
  int place_in_step(int micro_batch) const;
  Status make_virtual_stages();
  Status make_places();
  void give_places();
  Turn turn_in_run(const parallel::TimetableAction& action) const;

  void begin(const StageStep& now);
  void begin_in_run(const StageStep& now);
  void ask();  // for what actions need and there is room for
  bool has_room(const Turn& turn);
  runtime::Task<void> receive(Turn turn, SlotValue value, bool back);
  runtime::Task<void> send(Turn turn, SlotValue value, bool back);
  comm::Call message(const Turn& turn, const SlotValue& value, bool back, bool sends) const;
  runtime::Task<void> wait_for_change();
  void changed();
  runtime::Task<Status> wait_until_ready(const Turn& turn);
  Status take_weights(const Turn& turn);
  runtime::Task<Status> end_weights(const Turn& turn);
  Status rebind(Place& place);
  runtime::Task<Status> compute(const Turn& turn, const StageStep& now);
  runtime::Task<Status> wait_for_replicas(const Turn& turn, const prepare::StageSegment& segment);
  runtime::Task<Status> run_phase(const Turn& turn, const prepare::BatchTensors& batch);
  runtime::Task<Status> add_gradients(const Turn& turn, std::size_t segment);
  Status look_at_loss(const Turn& turn, const exec::Execution& execution,
                      const prepare::StageSegment& segment);
  void spawn_sends(const Turn& turn);

  runtime::Runtime& rt_;
  const StageRunsOptions o_;
  const parallel::TimetableRow* row_ = nullptr;
  parallel::TimetableSpec spec_;  // of this replica
  std::vector<Own> own_;
  Buffer scratch_;
  StageGradients gradients_;

  // The step under way. Behind its actions are those of the next one, where the pipeline never drains.
  std::vector<Turn> turns_;
  std::size_t num_now_ = 0;  // of them, of this step
  struct {
    Index forward = 0, back = 0;
  } asked_;  // the next of which something may be asked for
  struct {
    std::int64_t step = 0, batch = 0;  // of the step
    bool first = true, last = true;    // batch of the step
  } now_;
  std::size_t losses_seen_ = 0;
  std::size_t under_way_ = 0;  // messages
  Status failure_;
  int broken_ = -1;
  TimeNs waited_ = 0;
  std::unique_ptr<runtime::OneShot<bool>> change_;  // while somebody waits

  struct {
    std::unique_ptr<WeightVersions> versions;  // null: the pipeline drains
    std::map<std::int64_t, std::int64_t> ages;
    std::int64_t first_step = -1;  // that filled it
  } run_;
  // Where replicas divide parameters: what the phases of a step read of them. Null: they are all here.
  std::unique_ptr<SegmentWeights> weights_;
};

}  // namespace trireme::engine
