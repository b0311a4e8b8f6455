// train_rank: the whole life of one rank of a training job, the same code on real and virtual Runtimes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/data/dataset.h"
#include "trireme/net/factory.h"
#include "trireme/runtime/sync.h"
#include "trireme/train/evaluator.h"
#include "trireme/train/prepare.h"
#include "trireme/train/summary.h"

namespace trireme::train {

// What happens, for whoever shows it. Called on the loop of rank 0 only.
class Progress {
 public:
  struct Start {
    std::string run_dir;
    std::int64_t first_step = 0, first_batch = 0;  // completed before
    // Of train.batch samples; a step is one of them, or several where the batch grows.
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
    Part part = Part::kTest;
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

struct RankContext {
  runtime::Runtime* rt = nullptr;
  Job job;
  std::string transport = "inproc";
  net::ConnectOptions connect;                // rank, world, where to meet
  std::unique_ptr<net::Transport> connected;  // not null: this one is used, nobody connects
  int local_rank = 0;                         // among the ranks of this host
  std::optional<bool> may_spin;               // enough cores for all ranks of this host; else found by world
  std::string run_dir;                        // empty: nothing is read or written
  std::shared_ptr<const data::Dataset> data;  // its pixels may be empty on a phantom Runtime
  std::shared_ptr<Device> device;             // opened as train.device says; null: the host
  // Ranks of a virtual cluster share what is prepared; others prepare from rank 0's plan.
  std::shared_ptr<const Prepared> prepared;
  // Set: a new plan gets kernels by measurement (measured_kernels.h), remembered in this file ("": nowhere).
  std::optional<std::string> kernel_cache;
  cost::MachineModel machine;
  cost::LinkModel link;
  // What the plan's prediction is made of; null: machine and link.
  std::shared_ptr<const cost::Rates> rates;
  runtime::CancelToken stop;  // cancelled: checkpoint after this step and end
  Progress* progress = nullptr;
  std::vector<net::SendRecord>* send_log = nullptr;
};

// Ends with the summary (the same on every rank but for this rank's bytes and times), or with the one error
// that names the culprit, the operation and the reason.
runtime::Task<Result<Summary>> train_rank(RankContext context);

// The first interrupt cancels `stop`; from then on the default applies again: the second ends the process.
void stop_on_interrupt(runtime::Runtime& rt, runtime::CancelToken stop);

}  // namespace trireme::train
