// Replica: one rank's copy of the model and the memory of its logical shards; runs steps and evaluations.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trireme/agree/agree.h"
#include "trireme/data/dataset.h"
#include "trireme/data/order.h"
#include "trireme/exec/executor.h"
#include "trireme/io/safetensors.h"
#include "trireme/train/prepare.h"

namespace trireme::train {

// What one step needs to know. Everything follows from the job and the step number.
struct StepInput {
  std::int64_t step = 0;  // global, from 0
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;
  float learning_rate = 0;
  bool stop_wanted = false;  // this rank was asked to stop after the step
};

struct StepOutput {
  double loss = 0;     // mean over the global batch
  double correct = 0;  // samples of the global batch
  bool stop = false;   // some rank was asked to stop
  TimeNs compute_ns = 0, exposed_ns = 0;
};

struct EvalOutput {
  double loss = 0, accuracy = 0;
};

// On the loop of one Runtime. The group's rank decides which shards it runs.
class Replica {
 public:
  static Result<std::unique_ptr<Replica>> make(runtime::Runtime& rt, comm::Group& group, const Job& job,
                                               std::shared_ptr<const Prepared> prepared,
                                               std::shared_ptr<const data::Dataset> data);
  ~Replica();

  // Initial values, the same on every rank.
  void initialise(std::uint64_t seed);
  runtime::Task<Result<StepOutput>> run_step(StepInput input);
  // Over the test samples, shared among the ranks; the same numbers everywhere. `step` names the messages.
  runtime::Task<Result<EvalOutput>> evaluate(std::int64_t step);

  // Parameters, and parameters with optimiser state, in name order. Views of the live memory.
  io::NamedTensors parameters() const;
  io::NamedTensors state() const;

  const data::BatchCut& cut() const;

 private:
  struct Parts;
  explicit Replica(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace trireme::train
