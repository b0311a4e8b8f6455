// Replica: one rank's copy of the model and the memory of its logical shards; runs steps and evaluations.
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "trireme/agree/agree.h"
#include "trireme/comm/device/device_sum.h"
#include "trireme/comm/sum/gradient_sum.h"
#include "trireme/engine/batch_feed.h"
#include "trireme/engine/evaluator.h"
#include "trireme/engine/mesh_lines.h"
#include "trireme/engine/state/held_state.h"
#include "trireme/engine/step.h"
#include "trireme/io/safetensors.h"
#include "trireme/prepare/prepared.h"

namespace trireme::exec {
class DeviceQueue;
}

namespace trireme::engine {

class Replica;

// Between two models. Those of the ranks of a replica add up.
struct ModelDistance {
  double apart = 0, length = 0;  // squares
  double as_share() const { return length > 0 ? std::sqrt(apart / length) : 0.0; }
};

// What a replica works with beside its group of workers.
struct ReplicaLinks {
  // Not null: the lines of the mesh; otherwise every worker has the whole model.
  const MeshLines* lines = nullptr;
  comm::Mailbox* mail = nullptr;
  server::Client* servers = nullptr;
  // Not empty: the weights are there, one vector per bucket, shared with other replicas: under Hogwild, and
  // in lock step, where every worker updates its part of them (own_update.h) and rank 0 writes what they
  // start with.
  std::vector<Tensor> shared_weights = {};
  Tensor shared_states = {};  // in lock step: of the optimiser (state_layout)
  // Not null: adds gradients on GPUs; the owners of shards stay who they are.
  std::shared_ptr<comm::DeviceSum> device_sum = nullptr;
  // Not null: this is one more local replica of that one's worker, by the same rule.
  Replica* first_local = nullptr;
  // Every step has the first batch again, which is made and copied once: to time steps and nothing else.
  bool one_batch = false;
  // Works on single units (run_unit) and judges the model that the rule has agreed on, not its own.
  bool leased = false;
};

// On the loop of one Runtime. The group is that of all workers; its rank decides which shards this one runs,
// and of which part of the model.
class Replica {
 public:
  static Result<std::unique_ptr<Replica>> make(runtime::Runtime& rt, comm::Group& group, const job::Job& job,
                                               std::shared_ptr<const prepare::Prepared> prepared,
                                               std::shared_ptr<const data::Dataset> data,
                                               ReplicaLinks links = {});
  ~Replica();

  // In lock step and one set of weights: others see initial or restored values after a barrier.
  bool shares_weights() const;
  bool is_shared(const Tensor& tensor) const;  // of what others see
  // After make(): clears memory that was others' before. These two on the pool: it takes seconds where there
  // are millions of values, and the loop has heartbeats to send.
  runtime::Task<void> clear();
  // Initial values, the same on every rank.
  runtime::Task<Status> initialise(std::uint64_t seed);
  // Batches are made ahead from `first` on; call once before run_step().
  void start_feed(std::int64_t first, std::int64_t end);
  // Ends when the metrics of the step are known. Buckets may still be on their way then: the next step starts
  // with the layers whose buckets are there (plan.overlap).
  runtime::Task<Result<StepOutput>> run_step(StepInput input);
  // Other logical shards from batch `first` on; `owners` as in the plan. After drain().
  Status reassign(std::vector<collective::LeafRun> owners, std::int64_t first, std::int64_t end);
  const std::vector<collective::LeafRun>& owners() const;  // per replica
  const parallel::Mesh& mesh() const;
  // What belongs to logical shards and goes where they go (residuals of codecs), in lock step:
  // "<name>/<bucket>", [shards of this worker, elements] each. Live memory; after drain() what a GPU keeps is
  // there too.
  comm::NamedState shard_state() const;
  int shards_at_once() const;  // that run together here
  // By parameter, f32 vectors: added to the sum of gradients of the next step. The same on all workers.
  Status add_to_next(const std::map<std::string, Tensor>& kept);
  // Everything under way has arrived and is applied. Call it before the weights are looked at.
  runtime::Task<Result<std::vector<StepResult>>> drain();
  // Over samples shared among the ranks, after drain(); the same numbers everywhere. `step` names the
  // messages.
  runtime::Task<Result<EvalOutput>> evaluate(std::int64_t step, Part part);

  // Leased replicas. `source` is asked for units ahead; after next_unit() and, where it has
  // a unit, run_unit(), call release().
  void start_feed(LeaseSource source);
  runtime::Task<Result<LeasedBatch>> next_unit();
  // One step of this worker alone, by the rule: input.step is its clock. The batch is what next_unit() gave.
  runtime::Task<Result<StepOutput>> run_unit(StepInput input, std::span<const prepare::BatchTensors> batch);
  void release();
  agree::Agreement& rule();
  // The rule's model, on every live worker at the same time.
  runtime::Task<Status> settle();
  // How far this replica is from that model: squares, of which a rank counts what no rank before it has.
  runtime::Task<ModelDistance> distance();
  std::int64_t num_eval_batches(Part part) const;
  // Sums of loss and right ones per batch of that model.
  runtime::Task<Status> score(Part part, std::int64_t begin, std::int64_t end, std::span<float> results);
  Result<io::NamedTensors> agreed() const;  // as parameters()
  std::span<const Tensor> weights() const;

  // Whoever wrote into parameters() or state() says so; before the next step.
  Status publish();
  // What the model is: parameters, frozen ones, running statistics; and with the optimiser's state. In name
  // order. Views of the live memory, which on a GPU is its copy on the host as of this call. Fails where the
  // GPU does.
  Result<io::NamedTensors> parameters() const;
  Result<io::NamedTensors> state() const;
  // The same, `all` or without the optimiser's state, for a checkpoint: nothing is copied from the GPU of a
  // rank whose pieces another one writes.
  Result<io::NamedTensors> saved(bool all) const;
  // These tensors of parameters(), agreed(), state() or saved() as the ranks of the plan's mesh hold them.
  Result<HeldState> held(const io::NamedTensors& tensors) const;

  const job::SampleOrder& order() const;
  // Spans of later steps go there; null: nowhere.
  void trace_to(std::vector<StepSpan>* spans);
  // On a GPU, where steps follow each other without the host; else null.
  exec::DeviceQueue* gpu_queue() const;
  // Profiles of this rank's shards; empty unless train.trace_steps is set.
  std::vector<exec::Profile> profiles() const;

 private:
  struct State;
  explicit Replica(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// What a rank holds of the state of logical shards.
HeldState held_shards(const Replica& replica, const comm::Group& group,
                      const std::vector<RowsOfStage>& of_stages = {});

}  // namespace trireme::engine
