// Prepared: the plan and the compiled graphs of a job. Immutable and shared: by the shards of a worker, and
// by all ranks of a virtual cluster.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/exec/executor.h"
#include "trireme/job/sending.h"
#include "trireme/model/optimizer.h"
#include "trireme/model/zoo.h"
#include "trireme/plan/plan.h"
#include "trireme/plan/step_program.h"

namespace trireme::prepare {

using Compiled = std::shared_ptr<const exec::CompiledGraph>;

// Parameters of a bucket that replicas divide (parallel.zero = 3): they are brought together before the train
// graph reads them, on the way forward or back.
struct WeightGather {
  std::size_t bucket = 0;
  bool back = false;
  std::vector<int> gates;  // of the train graph, which open then; two: it reads them on both ways in a row
  int read_notice = -1;    // of the train graph: they have been read; -1: when the bucket is final
};

// Where the gradients of buckets lie in memory that they use in turn (parallel.zero >= 2): of a bucket there
// is nothing left when its sum is applied, so backward may write another one's gradients there.
struct GradientPlaces {
  std::int64_t num_elems = 0;         // of that memory; 0: every bucket has memory of its own
  std::vector<std::int64_t> offsets;  // per bucket, in elements
  // Per bucket: those that must have been applied before, and the gate of the train graph that waits for
  // that; -1: none.
  std::vector<std::vector<std::size_t>> after;
  std::vector<int> gates;
};

struct Stages;  // stages.h

struct Prepared {
  plan::Plan plan;
  job::Sending sending;  // how gradients travel: as the job says, or as the plan has chosen
  // The GPU that the graphs are compiled for; null: the host.
  std::shared_ptr<Device> device;
  // Weights, gradients and optimiser state stay on the GPU; at most gradients pass through the host.
  bool resident = false;
  model::ModelInput input;
  // Types here are those of this rank's graphs. Of a tensor that the mesh cuts they are the piece's, and
  // laid_out.h says of what.
  std::vector<model::Parameter> parameters;  // trained ones, in order of use
  std::vector<model::Parameter> frozen;
  std::vector<model::Statistic> statistics;
  std::vector<model::StateVariable> states;  // of the optimiser
  std::map<std::string, TensorType> wholes;  // of the tensors that the mesh cuts
  int tile = 0;                              // position along the model axis
  // With model.init_from: the variables that it gives; the others start anew.
  std::vector<std::string> inherited;

  // With plan.overlap "full" the train graph has a gate per bucket: its parameters.
  Compiled train, eval;
  // Instead of them where the model is cut in its depth. Buckets of the plan that are of other stages are
  // then empty, and here as they are.
  std::shared_ptr<const Stages> stages;
  // Replicas divide the gradients of every micro-batch (parallel.zero >= 2): of R replicas the micro-batch k
  // of replica r is logical shard k * R + r, not the k-th of a run. So those with the same k are a subtree.
  bool deals_shards = false;
  bool never_drains() const;         // stages begin later steps before one ends
  std::int64_t steps_ahead() const;  // so many, of this stage; 0 where they drain
  std::vector<plan::Bucket> whole_buckets;
  plan::Plan whole_plan() const;
  std::vector<Compiled> updates;  // one per bucket
  // Per bucket of factors, per parameter: from its factors "u" and "v" a shard's "grad". Empty for others.
  std::vector<std::vector<Compiled>> products;
  std::vector<Compiled> statistics_updates;  // one per bucket; null: it has no statistics
  // Null unless updates wait for all buckets: reads every "grad:<parameter>", gives "finite" (bool) and, with
  // clipping, "grad_norm" and "clip".
  Compiled finite_check;
  Compiled scale_update;  // f16: adapts "loss_scale" and "good_steps" by "finite"

  // The bucket that a notice of the train graph is of; -1: it is of the loss or the correct count.
  std::vector<int> bucket_of_notice;
  static constexpr int kReadNotice = -2;  // parameters that replicas divide have been read
  std::vector<WeightGather> gathers;      // in the order of need
  GradientPlaces places;
  int loss_notice = 0;    // -1: there is none
  plan::StepParts parts;  // what a shard's step is cut into, for the step's program
  cost::Traffic traffic;  // what the rule sends
  std::int64_t eval_batch = 0;
};

// Variables of f16 training, kept in checkpoints.
inline constexpr const char* kLossScale = "loss_scale";
inline constexpr const char* kGoodSteps = "loss_scale/good_steps";
inline constexpr float kFirstLossScale = 65536;

struct PrepareOptions {
  int replicas = 1;  // of the model: the size of the data axis
  // Positions of the model axis, and the one whose graphs are made. The first makes the plan.
  int tiles = 1, tile = 0;
  // The same of the stage axis.
  int stages = 1, stage = 0;
  int compute_threads = 1;  // of each worker
  std::string transport;
  bool several_ranks = false;  // of this job in one process, which share no memory with other processes
  cost::MachineModel machine;
  cost::LinkModel link;
  // What the prediction is made of, where more is known than machine and link.
  std::shared_ptr<const cost::Rates> rates;
  std::shared_ptr<Device> device;  // a GPU to compile for; null: the host
  std::string data_sha256;         // data::Dataset::content_sha256; the plan keeps it
  // A plan made before (a resumed run, or rank 0's): its shards, threads, kernels and buckets stand.
  std::shared_ptr<const plan::Plan> fixed;
  // The fixed plan is rank 0's of this start: its stages keep the segments that it gave them. Of an earlier
  // start's they share them anew.
  bool owners_stand = false;
  // Another stage or tile of the fixed plan, prepared with these options before: what all of them have alike
  // is taken from it.
  std::shared_ptr<const Prepared> like = nullptr;
};

}  // namespace trireme::prepare
