// A training job on the virtual cluster: the same train_rank, one or several ranks per machine, virtual time.
#pragma once

#include <memory>
#include <vector>

#include "trireme/runtime/virtual/world.h"
#include "trireme/train/train_rank.h"

namespace trireme::start {

struct SimulateOptions {
  job::Job job;          // its workers, and servers that have machines of their own
  bool phantom = false;  // only sizes travel: for clusters and models that do not fit here
  cost::MachineModel machine;
  cost::LinkModel link;
  // Workers of neighboring ranks that share a machine: its cores, its link. Servers with processes of their
  // own have machines of their own.
  int ranks_per_machine = 1;
  // Topology with machines: `machine` and `link` are only what prices assume; its faults of links and disks
  // are the world's. Without: one switch of `machine` and `link`.
  runtime::WorldSpec cluster;
  std::uint64_t seed = 1;
  double latency_jitter = 0;
  std::vector<runtime::FaultSpec> faults;
  std::string run_dir;  // on the virtual machine of rank 0; empty: no checkpoints
  TimeNs time_limit = 3600 * kSecond;
  bool record_sends = false;
};

// The machine of a rank, and how many machines there are.
int machine_of(const SimulateOptions& options, int rank);
int num_machines(const SimulateOptions& options);

struct SimulateReport {
  std::vector<Result<record::Summary>> ranks;  // in rank order; a killed rank has kPeerLost
  std::vector<TimeNs> ended_at;                // virtual time at which each rank ended; -1: never
  runtime::WorldReport world;
  std::vector<std::vector<net::SendRecord>> sends;  // per rank, when recorded
};

// `data` may be null for phantom runs: sizes are what the job fixes, or what the model was published with.
SimulateReport simulate_training(const SimulateOptions& options, std::shared_ptr<const data::Dataset> data);

// A data set without samples, for phantom runs. kInvalid where nobody knows what a sample would be.
Result<std::shared_ptr<const data::Dataset>> phantom_data(const job::Job& job, std::int64_t num_train);

}  // namespace trireme::start
