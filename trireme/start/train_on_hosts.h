// A training job whose ranks are started on other hosts through ssh. They need the program and the data; the
// job travels in the command line, and the run folder is rank 0's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/job/job.h"
#include "trireme/runtime/runtime.h"
#include "trireme/runtime/task.h"
#include "trireme/start/places.h"
#include "trireme/start/trouble.h"

namespace trireme::start {

struct HostsRun {
  job::Job job;
  bool workers_given =
      false;          // parallel.workers counts; otherwise the hosts say how many, unless the job does
  std::string hosts;  // a file of lines "name [slots=N]"
  std::string ssh = "ssh -o BatchMode=yes -o ConnectTimeout=10";
  std::string binary;       // on those hosts; empty: where this program is
  std::string directory;    // where ranks start, on hosts that have it
  std::string coordinator;  // "host:port" where rank 0 listens; empty: the first host
  bool insecure = false;    // rank 0 may listen beyond this host
  Places places;
  // The words after the program that start a rank there; `job` is the whole job as TOML. Each is one rank of
  // run_rank() (run_rank.h), and ends with a code of exit_code.h.
  std::function<std::vector<std::string>(const std::string& job)> rank_arguments = {};
  std::vector<SlowRank> slow = {};
  std::vector<RankFault> faults = {};
  std::function<void(std::string_view)> output = [](std::string_view) {};  // what rank 0 writes
};

// Blocks until every rank ended. False: the run was stopped on request and can be resumed.
runtime::Task<Result<bool>> train_on_hosts(runtime::Runtime& rt, HostsRun run);

}  // namespace trireme::start
