// One rank of a training job that is a process of its own, whoever started it. A rank of train_on_host()
// finds its job in the run folder. A rank of mpirun, srun, torchrun or train_on_hosts() brings it, and rank 0
// opens the run folder and tells the others.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/job/job.h"
#include "trireme/launch/environment.h"
#include "trireme/runtime/runtime.h"
#include "trireme/runtime/task.h"
#include "trireme/start/places.h"
#include "trireme/start/run_observer.h"
#include "trireme/start/trouble.h"

namespace trireme::start {

struct RankStart {
  launch::RankIdentity id;   // rank_from_environment()
  std::string prepared_dir;  // not empty: train_on_host() opened this run folder
  // Otherwise:
  std::function<runtime::Task<Result<job::Job>>(runtime::Runtime& rt)> read_job = {};
  int workers = 0;      // 0: as the job says, or as many as there are ranks
  std::string run_dir;  // as of HostRun
  std::string command;  // as of HostRun
  // For both:
  bool insecure = false;  // connections may leave this host although they are not encrypted
  Places places;
  std::vector<SlowRank> slow = {};
  std::vector<RankFault> faults = {};
  RunObserver observer = {};  // rank 0: notes and progress; all: failed
};

struct RankEnd {
  Status failure;
  std::optional<Json> summary;  // as in summary.json; of rank 0, where the run was finished before
  std::string run_dir;
  bool finished = false;  // the job is done; otherwise it failed or was stopped on request
};

// Blocks until the job ends.
RankEnd run_rank(const RankStart& start);

}  // namespace trireme::start
