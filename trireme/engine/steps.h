// Steps: one rank's steps, from batches over backward, exchanges and updates to what is known of them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trireme/comm/host_ops.h"
#include "trireme/engine/batch_feed.h"
#include "trireme/engine/conductor.h"
#include "trireme/engine/loss_watch.h"
#include "trireme/engine/mesh_lines.h"
#include "trireme/engine/stage/stage_runs.h"
#include "trireme/engine/state/whole_parameters.h"

namespace trireme::engine {

struct StepsOptions {
  comm::Group* group = nullptr;      // of all workers
  const MeshLines* lines = nullptr;  // null: every worker has the whole model
  const job::Job* job = nullptr;
  const prepare::Prepared* prepared = nullptr;
  std::shared_ptr<const data::Dataset> data;
  const GpuSide* gpu = nullptr;
  Weights* weights = nullptr;
  const BucketSums* sums = nullptr;
  agree::Agreement* rule = nullptr;
  const std::vector<collective::LeafRun>* owners = nullptr;
  const StepTrace* trace = nullptr;
  bool updates_here = true;  // false: parameter servers run the optimiser
  bool shared = false;       // weights: each worker updates its part
  bool one_batch = false;    // every step has the first batch again
  // Before a unit: the parameters that all ranks of the replica have whole. Null: they are equal.
  WholeParameters* whole = nullptr;
};

// On the loop of one Runtime; all that the options point to outlives it.
class Steps {
 public:
  // `run`: the logical shards of this rank.
  static Result<std::unique_ptr<Steps>> make(runtime::Runtime& rt, StepsOptions options,
                                             collective::LeafRun run);

  // Other logical shards, and so another feed, which is to be started.
  Status take_shards(collective::LeafRun run);
  // A step of all workers, in lock step.
  runtime::Task<Result<StepOutput>> run(StepInput input);
  // One step of this worker alone, by its rule.
  runtime::Task<Result<StepOutput>> run_unit(StepInput input, std::span<const prepare::BatchTensors> batch);

  // Where steps overlap: nothing is under way, and what came of steps that run() has not told yet. Of all
  // ranks behind the same step.
  runtime::Task<Result<std::vector<StepResult>>> late_results();

  BatchFeed& feed() { return *feed_; }
  Conductor& conductor() { return *conductor_; }
  WeightGathers& gathers() { return *gathers_; }
  const ShardRuns& runs() const { return *runs_; }  // of no shards where there are stages

 private:
  // The step under way.
  struct Now {
    StepInput input;
    std::span<const prepare::BatchTensors> batch;
    bool exchange_early = true;             // buckets leave while backward runs
    std::vector<std::vector<int>> pending;  // per shard and part: what is still to come of it
    Status failure;                         // of looking at the loss
  };

  Steps(runtime::Runtime& rt, StepsOptions options)
      : rt_(rt),
        o_(std::move(options)),
        busy_(rt),
        host_ops_(o_.lines != nullptr ? o_.lines->make_host_ops(num_shards())
                                      : comm::make_host_ops(*o_.group, num_shards())) {}
  std::uint32_t num_shards() const { return static_cast<std::uint32_t>(o_.prepared->plan.logical_shards); }
  // Those that hold what this rank does, by replica.
  comm::Group& peers() const { return o_.lines != nullptr ? o_.lines->data() : *o_.group; }
  const plan::Plan& plan() const { return o_.prepared->plan; }
  Status make_updates();
  void make_runs();
  void make_stages();
  void make_gathers();
  void make_loss();
  Result<plan::StepProgram> make_program(collective::LeafRun run) const;
  Status make_conductor(collective::LeafRun run);
  Status make_feed(collective::LeafRun run);

  void begin(const StepInput& input);
  void finish_batch(const StepInput& step);
  Status keep_batch();  // on the GPU
  void on_notice(std::size_t place, int notice, const std::shared_ptr<Event>& point);
  // Something of a part is there: a gradient, or what the vote needs of the loss.
  void has_come(std::size_t place, std::int32_t part);
  runtime::Task<Status> run_shard(std::size_t place);
  runtime::Task<Status> run_batches(StepOutput& out);
  runtime::Task<Status> run_batch(std::int64_t number);  // of the step
  // Where the pipeline never drains.
  runtime::Task<Status> take_batches();
  runtime::Task<Status> run_overlapping(StepOutput& out);
  TimeNs met_ns() const { return stages_ != nullptr ? stages_->waited().for_neighbours : runs_->met_ns(); }
  // A shard of the batch whose loss is not a number; -1: none.
  int broken_place() const { return stages_ != nullptr ? stages_->broken_place() : loss_->broken_place(); }
  runtime::Task<Status> explain_broken_loss();
  Status broken_loss(const std::string& what) const;
  runtime::Task<Status> fail(Status status);

  runtime::Runtime& rt_;
  const StepsOptions o_;
  BusyTime busy_;  // where there are stages
  // Collectives and messages in the graphs: the first shards of all ranks run together, then the second ones.
  const std::unique_ptr<comm::HostOpTable> host_ops_;
  std::vector<int> coming_;  // per part: how many notices it has, and the loss
  std::unique_ptr<Votes> votes_;
  std::unique_ptr<LossWatch> loss_;
  std::unique_ptr<Updates> updates_;
  std::unique_ptr<ShardRuns> runs_;
  std::vector<std::span<const prepare::BatchTensors>> held_;  // of steps that have begun, where they overlap
  std::unique_ptr<StageRuns> stages_;  // instead of them, where the model is cut in its depth
  std::unique_ptr<WeightGathers> gathers_;
  std::unique_ptr<GradientTurns> turns_;
  std::unique_ptr<Conductor> conductor_;
  std::unique_ptr<BatchFeed> feed_;
  Now now_;
};

}  // namespace trireme::engine
