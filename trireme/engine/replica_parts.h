// The inside of a Replica, shared by replica.cc (making, evaluating) and replica_step.cc (one step).
#pragma once

#include "trireme/engine/bucket_queue.h"
#include "trireme/engine/replica.h"
#include "trireme/engine/shared_arena.h"
#include "trireme/exec/device_queue.h"
#include "trireme/job/job_parts.h"
#include "trireme/prepare/factors.h"
#include "trireme/runtime/sync.h"

namespace trireme::engine {

struct Shard {
  std::int32_t index = 0;  // logical shard
  std::unique_ptr<exec::Execution> execution;
  std::vector<Tensor> buckets;  // f32 vectors, one per bucket: where backward writes; empty ones: see factors
  std::vector<Tensor> on_gpu;   // the same on the GPU, where the model stays there: backward writes here
  std::vector<std::shared_ptr<void>> locked;  // pages of buckets that pass through the host
  std::vector<Tensor> sums;                   // of the batches before, where steps have several; same shapes
};

struct Replica::Parts {
  Parts(runtime::Runtime& r, comm::Group& g, const job::Job& j, std::shared_ptr<const prepare::Prepared> p,
        std::shared_ptr<const data::Dataset> d, ReplicaLinks l)
      : rt(r),
        group(g),
        job(j),
        links(std::move(l)),
        prepared(std::move(p)),
        data(std::move(d)),
        travelling(plan().buckets.size(), false),
        queue(plan().exchange_order, plan().buckets.size(), plan::kExchangesAtOnce) {}

  runtime::Runtime& rt;
  comm::Group& group;
  const job::Job& job;
  ReplicaLinks links;
  std::shared_ptr<const prepare::Prepared> prepared;
  std::shared_ptr<const data::Dataset> data;
  std::unique_ptr<agree::Agreement> agreement;
  std::unique_ptr<prepare::FactorExchange> factors;  // null: no bucket is one of factors
  bool updates_here = true;                          // false: parameter servers run the optimiser
  std::vector<Tensor> weights;  // per bucket, laid out as the gradients; the variables are views of them
  std::vector<Tensor> agreed;   // leased replicas: the rule's model, laid out as the weights
  exec::Variables variables, agreed_variables;
  std::shared_ptr<exec::DeviceAhead> ahead;    // of samples; null unless they go to a GPU
  std::unique_ptr<exec::DeviceMirror> mirror;  // null unless the model stays on a GPU
  std::unique_ptr<SharedArena> arena;          // likewise; steps and evaluations take turns
  // Not null: one shard, whose model stays on a GPU and is added to nobody's. Its steps and updates follow
  // each other there, and the host waits for nothing but the loss, while backward runs.
  std::shared_ptr<exec::DeviceQueue> gpu_queue;
  Tensor queued_metrics;                    // with a queue: loss and correct count, in page-locked memory
  std::shared_ptr<Event> loss_written;      // of the step under way
  std::vector<collective::LeafRun> owners;  // of logical shards, per worker
  std::vector<Shard> shards;
  std::unique_ptr<BatchFeed> feed;
  exec::Variables own_variables;                          // shared weights: this worker's slices
  std::vector<std::unique_ptr<exec::Execution>> updates;  // per bucket; null: nothing of it is this worker's
  std::unique_ptr<exec::Execution> gate, statistics_update, scale_update;
  std::unique_ptr<Evaluator> evaluator;
  Tensor learning_rate, velocity_factor, momentum_kept, update_step, clip, finite, eval_results;
  std::vector<StepSpan>* spans = nullptr;

  // State of the step under way.
  StepInput now;
  std::span<const prepare::BatchTensors> batch;
  bool exchange_early = true;  // buckets leave while backward runs
  int broken_shard = -1;       // its loss is not a number
  std::vector<bool> looked;    // on a GPU: at the loss of each shard
  Status look_failure;
  std::vector<int> pending;  // notices left per bucket

  // Exchanges; with full overlap those of a step end while the next one runs.
  std::vector<bool> travelling;  // final, not applied yet
  BucketQueue queue;
  StepInput exchanging;  // the step that they belong to
  Status bucket_failure;
  std::unique_ptr<runtime::OneShot<bool>> bucket_ended;  // while somebody waits

  bool kept_on_gpu = false;                          // what encoders keep, since the first sum there
  std::vector<std::map<std::int64_t, Tensor>> once;  // per bucket: what is added to its next sum, by offset

  const plan::Plan& plan() const { return prepared->plan; }
  Device& device() const { return rt.is_phantom() ? phantom_device() : cpu_device(); }
  // The third metric: 1 of every rank that wants to stop (fewer than kSaveWish), kSaveWish of rank 0 where it
  // wants to save; added up over the ranks and batches of a step, which f32 does exactly.
  static constexpr float kSaveWish = 131072;
  float wishes() const { return (now.stop_wanted ? 1.0F : 0.0F) + (now.save_wanted ? kSaveWish : 0.0F); }
  bool waits() const { return prepared->gate != nullptr; }
  bool gated() const { return plan().overlap == plan::Overlap::kFull; }
  // One set of weights for all workers, in lock step: each updates its part.
  bool shares() const { return !links.shared_weights.empty() && !links.leased; }
  bool fills() const { return !shares() || group.rank() == 0; }  // writes what the weights start with
  std::uint16_t rest_slot() const { return static_cast<std::uint16_t>(2 * plan().buckets.size()); }
  bool skips() const { return job.train.nan == "skip" || prepared->scale_update != nullptr; }
  // Factors that this worker multiplies, and those that its servers do.
  bool by_factors(std::size_t bucket) const { return updates_here && is_factored(bucket); }
  bool pushes_factors(std::size_t bucket) const { return !updates_here && is_factored(bucket); }
  bool is_factored(std::size_t bucket) const { return plan().buckets[bucket].codec == plan::kFactors; }
  // A view of what holds the sum over all shards and ranks after the exchange: shard 0's memory, mostly.
  Tensor summed(std::size_t bucket, std::int64_t offset, const TensorType& type) const {
    const Tensor& all = by_factors(bucket)  ? factors->gradient(bucket)
                        : mirror != nullptr ? shards[0].on_gpu[bucket]
                                            : shards[0].buckets[bucket];
    return Tensor(all.buffer(), type, static_cast<std::size_t>(offset) * 4);
  }
  void note(std::string name, const char* category, int track, TimeNs begin) {
    if (spans != nullptr) spans->push_back({std::move(name), category, track, begin, rt.now()});
  }

  // replica.cc
  Status make_mirror();  // of all variables
  void make_queue();
  Status make_weights();
  Status make_variables();
  Status bind_weights(exec::Variables& to, const std::vector<Tensor>& memory);
  Status make_agreed();
  Status make_shards();  // as many as this rank owns
  Result<Shard> make_shard(std::int32_t index, std::size_t at, std::vector<Tensor> memory);
  void bind_factors(std::size_t bucket, const Tensor& memory, exec::ExecutionOptions& options) const;
  Status bind_gradients(const plan::Bucket& bucket, const Tensor& memory, exec::ExecutionOptions& options);
  Status add_on_gpu(Shard& shard, std::size_t at) const;
  // Between the host and the GPU, waiting until it is done.
  Status copy_on_gpu(const Tensor& from, const Tensor& to) const {
    const std::size_t bytes = from.type().num_bytes();
    if (bytes == 0) return {};
    return prepared->device->copy(from.buffer().slice(from.offset_bytes(), bytes),
                                  to.buffer().slice(to.offset_bytes(), bytes), nullptr);
  }
  Status make_feed();
  Status make_evaluator();
  Result<io::NamedTensors> named(const exec::Variables& from, bool with_state) const;

  // replica_updates.cc
  Status make_updates();
  Result<std::unique_ptr<exec::Execution>> make_own_update(std::size_t bucket);
  Status feed_gradients(exec::Execution& execution, std::span<const std::size_t> buckets) const;

  // replica_step.cc
  void begin_step(const StepInput& input);
  void on_notice(std::size_t shard, int notice);
  Status look_at_loss(std::size_t shard);
  runtime::Task<Status> wait_for_loss();   // on the queue
  runtime::Task<Status> wait_for_queue();  // all that is on it
  Tensor metrics_of(const Tensor& last_bucket) const;
  runtime::Task<Status> exchange_on_gpu(std::size_t bucket);
  void bucket_is_final(std::size_t bucket);
  void begin_updates();
  void start_exchanges();
  agree::BucketExchange exchange_of(std::size_t bucket) const;
  runtime::Task<Status> exchange(std::size_t bucket);
  void add_once(std::size_t bucket);
  runtime::Task<void> run_bucket(std::size_t bucket);
  runtime::Task<Status> update_bucket(std::size_t bucket);
  runtime::Task<Status> meet(std::uint16_t slot);
  void bucket_has_ended(std::size_t bucket, const Status& status);
  runtime::Task<Status> run_shard(std::size_t shard);
  runtime::Task<Status> run_batches(StepOutput& out);
  Status keep_batch();  // on the GPU
  runtime::Task<void> add_to_sums(bool first, bool last);
  void scale_weights();
  runtime::Task<Status> wait_for_metrics();
  runtime::Task<Status> wait_for_buckets();
  runtime::Task<Status> fail_step(Status status);
  runtime::Task<Status> apply_all(StepOutput& out);
  runtime::Task<Status> explain_broken_loss();
  void read_metrics(StepOutput& out) const;
};

}  // namespace trireme::engine
