// Updates: how a replica applies the sums of gradients: the optimiser's graphs over whole buckets, or over
// the worker's part of weights that are shared.
#pragma once

#include <memory>
#include <vector>

#include "trireme/engine/bucket_sums.h"
#include "trireme/engine/step.h"
#include "trireme/engine/vote/tensor_lengths.h"
#include "trireme/engine/vote/vote.h"
#include "trireme/engine/weights.h"

namespace trireme::engine {

struct UpdatesOptions {
  const job::Job* job = nullptr;
  const prepare::Prepared* prepared = nullptr;
  const GpuSide* gpu = nullptr;
  Weights* weights = nullptr;
  const BucketSums* sums = nullptr;
  int rank = 0, world = 1;
  bool here = true;              // false: parameter servers run the optimiser
  bool in_parts = false;         // a worker updates its part of every bucket
  comm::Group* tiles = nullptr;  // along the model axis; null: the model is not cut there
};

// What a rank's summed gradients say.
struct GradientCheck {
  bool finite = true;
  std::vector<float> squares;  // their sum per segment of the model; 0 where nothing is clipped
};

// On the loop of one Runtime; all that the options point to outlives it.
class Updates {
 public:
  static Result<std::unique_ptr<Updates>> make(runtime::Runtime& rt, const UpdatesOptions& options);

  // Something is known about all gradients before the first weight changes.
  bool wait_for_all() const { return finite_check_ != nullptr; }
  // Rate and counters of a step, before its first update.
  void begin(const StepInput& step);
  runtime::Task<Status> update(std::size_t bucket);
  // Where updates wait: what this rank brings to the vote, and what follows from the vote: whether the
  // gradients are applied, which is in `out`, and how much of them, with their norm.
  runtime::Task<Result<GradientCheck>> check();
  runtime::Task<Status> decide(StepInput step, VoteOutcome vote, StepOutput& out);
  std::size_t size() const { return updates_.size(); }
  bool here() const { return o_.here; }

 private:
  Updates(runtime::Runtime& rt, const UpdatesOptions& options) : rt_(rt), o_(options) {}
  const plan::Plan& plan() const { return o_.prepared->plan; }
  Result<std::unique_ptr<exec::Execution>> make_execution(const prepare::Compiled& compiled) const;
  Result<std::unique_ptr<exec::Execution>> make_own(std::size_t bucket);
  Status make_scalars();
  Status make_updates();
  Status make_checks();
  // A view of what holds the sum over all shards and ranks after the exchange.
  Tensor summed(std::size_t bucket, std::int64_t offset, const TensorType& type) const;
  Status feed_gradients(exec::Execution& execution, std::size_t bucket) const;
  Status feed_rates(exec::Execution& execution, std::size_t bucket);
  runtime::Task<Status> adapt_loss_scale();

  runtime::Runtime& rt_;
  const UpdatesOptions o_;
  exec::Variables own_variables_;                          // in parts: this worker's slices
  std::vector<std::unique_ptr<exec::Execution>> updates_;  // per bucket; null: nothing of it is this worker's
  std::vector<std::unique_ptr<exec::Execution>> statistics_;  // per bucket; null: it has none
  std::unique_ptr<exec::Execution> finite_check_, loss_scale_;
  std::unique_ptr<TensorLengths> lengths_;  // null: no update looks at tensors of which this is a tile
  std::uint32_t now_ = 0;                   // the step
  Tensor learning_rate_, velocity_factor_, momentum_kept_, step_, clip_, finite_;
};

}  // namespace trireme::engine
