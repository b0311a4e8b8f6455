// StageEvaluator: evaluates samples on a model that is cut in its depth. Every stage computes its segments of
// a batch and passes on what later ones read; the last one has the scores.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/engine/evaluator.h"
#include "trireme/engine/stage/segment_weights.h"
#include "trireme/prepare/stages.h"

namespace trireme::engine {

struct StageEvaluatorOptions {
  const prepare::Prepared* prepared = nullptr;
  exec::Variables* variables = nullptr;
  std::shared_ptr<const data::Dataset> data;
  comm::Group* line = nullptr;       // along the stage axis; null: all segments are here
  WeightGathers* gathers = nullptr;  // not null: replicas divide parameters
  exec::HostOps host_ops = {};
};

// On the loop of one Runtime; all that the options point to outlives it.
class StageEvaluator {
 public:
  static Result<std::unique_ptr<StageEvaluator>> make(runtime::Runtime& rt, StageEvaluatorOptions options);

  std::int64_t num_batches(Part part) const;
  // As Evaluator::run, on all ranks of a replica with the same range; `step` names the messages. Ranks
  // that do not have the scores write nothing. Where replicas divide parameters all of them call it, with
  // ranges that share the part's batches evenly.
  runtime::Task<Status> run(std::int64_t step, Part part, BatchRange range, std::span<float> results);

 private:
  StageEvaluator(runtime::Runtime& rt, StageEvaluatorOptions options) : rt_(rt), o_(std::move(options)) {}
  const prepare::Stages& stages() const { return *o_.prepared->stages; }
  Status make_values();
  Status make_executions();
  std::vector<std::int64_t> ids_of(const PartRange& range, std::int64_t batch) const;
  runtime::Task<Status> fill(const PartRange& range, std::int64_t batch);
  runtime::Task<Status> pass(std::int64_t step, std::int64_t batch, std::int32_t from, bool sends);
  Status read(std::size_t segment, std::int64_t batch, std::span<float> results) const;
  runtime::Task<Status> run_batch(std::int64_t step, std::int64_t batch, std::span<float> results);
  runtime::Task<Status> run_all(std::int64_t step, Part part, BatchRange range, std::span<float> results);

  runtime::Runtime& rt_;
  const StageEvaluatorOptions o_;
  std::vector<Tensor> values_;                                // per crossing; null: it does not come by here
  std::vector<std::unique_ptr<exec::Execution>> executions_;  // per own segment
  prepare::BatchTensors batch_;
  std::unique_ptr<SegmentWeights> weights_;  // null: they are all here
};

}  // namespace trireme::engine
