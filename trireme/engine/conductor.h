// Conductor: runs the program of a step (plan/step_program.h). It is told when parts of cells are computed,
// and does the rest: sums by the rule, updates, the vote. With full overlap sums and updates of a step end
// while the next one computes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "trireme/agree/agree.h"
#include "trireme/engine/gradient_turns.h"
#include "trireme/engine/shard_runs.h"
#include "trireme/engine/stage/busy_time.h"
#include "trireme/engine/step_progress.h"
#include "trireme/engine/updates.h"
#include "trireme/engine/vote/votes.h"
#include "trireme/engine/weight_gathers.h"
#include "trireme/plan/slots.h"
#include "trireme/runtime/sync.h"

namespace trireme::engine {

struct ConductorOptions {
  const plan::Plan* plan = nullptr;
  comm::Group* group = nullptr;
  comm::Group* peers = nullptr;  // those that hold what this rank does
  agree::Agreement* rule = nullptr;
  const BucketSums* sums = nullptr;
  Votes* votes = nullptr;
  ShardRuns* runs = nullptr;
  Updates* updates = nullptr;
  WeightGathers* gathers = nullptr;
  GradientTurns* turns = nullptr;
  const StepTrace* trace = nullptr;
  BusyTime* busy = nullptr;  // not null: updates count
  const std::vector<collective::LeafRun>* owners = nullptr;
  bool shared = false;  // weights: the peers meet after an update
};

// On the loop of one Runtime; all that the options point to outlives it.
class Conductor {
 public:
  Conductor(runtime::Runtime& rt, const ConductorOptions& options, plan::StepProgram program);

  // Other cells than before; between steps.
  void set_program(plan::StepProgram program);
  // A step whose parts will be told. Of the one before, sums and updates may be under way: they end before
  // the first part is there, since backward needs all weights.
  void expect(const StepInput& step);
  // All cells, or the one at a place, have computed a part.
  void computed(std::size_t place, std::int32_t part);
  void computed_all();
  // Buckets that have been applied, which the next step may use at once.
  std::vector<std::size_t> applied() const;
  // All ranks have voted on the step, and buckets without parameters, for which no layer of the next step
  // waits, are there. What was decided is in `out`.
  runtime::Task<Status> wait_for_vote(StepOutput& out);
  // Nothing is under way. Sums that began use the shards' memory: they end with the group's verdict.
  runtime::Task<Status> wait_for_all();
  // The step fails; what waits never begins. An action that failed brought the group's verdict; anything else
  // is this rank's own failure.
  runtime::Task<Status> fail(Status status);
  // By parameter, f32 vectors: added to the sum of gradients of the next step. The same on all workers.
  void add_to_next(const std::map<std::string, Tensor>& kept);

 private:
  using Index = std::uint32_t;
  const plan::Plan& plan() const { return *o_.plan; }
  plan::Slots slots() const { return {plan().buckets.size()}; }
  bool in_lock_step() const { return plan().timetable == plan::Timetable::kLockStep; }
  bool has_gates() const { return plan().overlap == plan::Overlap::kFull; }
  // Something about all gradients is known before the first weight changes.
  bool waits() const { return o_.updates->wait_for_all() && o_.updates->here(); }
  // It is of other stages.
  bool is_distant(std::size_t bucket) const { return plan().buckets[bucket].num_elems == 0; }
  bool is_decided() const;
  void begin();
  void start();
  runtime::Task<void> run(Index action);
  runtime::Task<Status> act(Index action);
  runtime::Task<Status> sum(std::size_t bucket);
  runtime::Task<Status> update(std::size_t bucket);
  runtime::Task<Status> apply(std::size_t bucket);
  runtime::Task<Status> by_rule(Index action);
  runtime::Task<Status> vote();
  runtime::Task<Status> exchange(std::size_t bucket);
  void add_kept(std::size_t bucket);
  runtime::Task<Status> meet(std::uint16_t slot, std::uint16_t iteration = 0);
  void has_ended(Index action, const Status& status);
  runtime::Task<void> wait_for_an_end();

  runtime::Runtime& rt_;
  const ConductorOptions o_;
  std::optional<StepProgress> progress_;
  std::vector<Index> updates_;    // per bucket: its update, or what stands for it
  std::size_t updates_left_ = 0;  // of the step
  StepInput expected_, step_;     // the one whose parts are told, and the one whose actions run
  bool fresh_ = false;            // nothing of the expected step is there yet
  bool voted_ = false;
  StepOutput decided_;  // by the vote
  Status failure_;
  std::unique_ptr<runtime::OneShot<bool>> ended_;     // while somebody waits
  std::vector<std::map<std::int64_t, Tensor>> kept_;  // per bucket: what is added to its next sum, by offset
};

}  // namespace trireme::engine
