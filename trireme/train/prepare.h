// Prepare: Job -> graphs -> Plan -> compiled graphs. Immutable and shared: by the shards of a worker, and by
// all ranks of a virtual cluster.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/exec/executor.h"
#include "trireme/model/zoo.h"
#include "trireme/plan/plan.h"
#include "trireme/train/job.h"

namespace trireme::train {

struct Prepared {
  plan::Plan plan;
  std::vector<model::Parameter> parameters;  // in order of use
  std::shared_ptr<const exec::CompiledGraph> train, eval;
  std::vector<std::shared_ptr<const exec::CompiledGraph>> updates;  // one per bucket
  std::vector<int> bucket_of_notice;                                // of the train graph's notices
  std::vector<int> notices_of_bucket;                               // how many
  std::int64_t eval_batch = 0;
};

struct PrepareOptions {
  int world = 1;
  int compute_threads = 1;  // of each worker
  std::string transport;
  cost::MachineModel machine;
  cost::LinkModel link;
  // A plan made before (a resumed run, or rank 0's): its shards, threads, kernels and buckets stand.
  std::shared_ptr<const plan::Plan> fixed;
};

// Parameters and their optimiser state by variable name.
std::string velocity_name(const std::string& parameter);

Result<std::shared_ptr<const Prepared>> prepare(const Job& job, const model::ModelInput& input,
                                                const PrepareOptions& options);

}  // namespace trireme::train
