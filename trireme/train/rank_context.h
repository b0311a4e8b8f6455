// RankContext: what one rank of a training job is given.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/data/dataset.h"
#include "trireme/net/factory.h"
#include "trireme/prepare/prepared.h"
#include "trireme/record/progress.h"
#include "trireme/runtime/sync.h"

namespace trireme::train {

struct RankContext {
  runtime::Runtime* rt = nullptr;
  job::Job job;
  std::string transport = "inproc";
  net::ConnectOptions connect;                // rank, world, where to meet
  std::unique_ptr<net::Transport> connected;  // not null: this one is used, nobody connects
  int local_rank = 0;                         // among the ranks of this host
  std::optional<bool> may_spin;               // enough cores for all ranks of this host; else found by world
  bool owns_process = false;                  // no other worker runs in this process: its memory can be told
  std::string run_dir;                        // empty: nothing is read or written
  std::shared_ptr<const data::Dataset> data;  // its pixels may be empty on a phantom Runtime
  std::shared_ptr<Device> device;             // opened as train.device says; null: the host
  // Ranks of a virtual cluster share what is prepared, one per tile; others prepare from rank 0's plan.
  std::vector<std::shared_ptr<const prepare::Prepared>> prepared;
  // By rank, its worker, where workers have several ranks (job::Seating); empty: every rank is a worker.
  std::vector<int> workers;
  // Workers that the first `ranks` of the mesh are.
  int num_workers_of(int ranks) const {
    return workers.empty() ? ranks : *std::max_element(workers.begin(), workers.begin() + ranks) + 1;
  }
  // Set: a new plan gets kernels by measurement (measured_kernels.h), remembered in this file ("": nowhere).
  std::optional<std::string> kernel_cache;
  cost::MachineModel machine;
  cost::LinkModel link;
  // What the plan's prediction is made of; null: machine and link.
  std::shared_ptr<const cost::Rates> rates;
  runtime::CancelToken stop;  // cancelled: checkpoint after this step and end
  record::Progress* progress = nullptr;
  std::vector<net::SendRecord>* send_log = nullptr;
};

}  // namespace trireme::train
