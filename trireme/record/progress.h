// Progress: what happens in a run, for whoever shows it.
#pragma once

#include <string>

#include "trireme/base/units.h"
#include "trireme/engine/evaluator.h"
#include "trireme/model/zoo.h"
#include "trireme/plan/plan.h"

namespace trireme::record {

// Called on the loop of rank 0 only.
class Progress {
 public:
  struct Start {
    std::string run_dir;
    std::int64_t first_step = 0, first_batch = 0;  // completed before
    // A batch has train.batch samples; a step is one of them, or several where the batch grows.
    std::int64_t total_batches = 0, batches_per_epoch = 1;
    std::int64_t num_parameters = 0;
    const plan::Plan* plan = nullptr;
    model::ModelTask task = model::ModelTask::kClassify;
  };
  struct Step {
    std::int64_t step = 0, batches = 0;  // completed
    std::int64_t epoch = 0;
    double loss = 0, accuracy = 0;  // of this step
    std::int64_t samples = 0;
    bool skipped = false;
    TimeNs now = 0;
  };
  struct Evaluation {
    std::int64_t step = 0, epoch = 0;
    engine::Part part = engine::Part::kTest;
    double loss = 0, accuracy = 0;
  };
  // What a worker last reported; one that is lost reports no more.
  struct Worker {
    int worker = 0;
    std::int64_t steps = 0;  // its own
    double samples_per_second = 0, loss = 0;
    double staleness = 0;  // mean over the updates that it used
    bool alive = true;
    TimeNs now = 0;
  };
  virtual ~Progress() = default;
  virtual void on_start(const Start&) {}
  virtual void on_step(const Step&) {}
  virtual void on_evaluation(const Evaluation&) {}
  virtual void on_checkpoint(std::int64_t /*step*/) {}
  virtual void on_worker(const Worker&) {}
};

}  // namespace trireme::record
