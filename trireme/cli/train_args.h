// What `trireme train` was asked to do, and its two sides: the launcher (train.cc) and a rank
// (train_rank.cc).
#pragma once

#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/cli/faults.h"
#include "trireme/cli/job_source.h"
#include "trireme/launch/environment.h"

namespace trireme::cli {

struct TrainArgs {
  JobSource job;
  std::string run_dir;
  int workers = 0;          // 0: as the job says
  std::string transport;    // "": as the job says
  std::string coordinator;  // "": as the launcher says
  bool insecure = false;
  bool json = false;
  bool quiet = false;
  bool prepared = false;  // this rank was started by our own launcher, which made the run folder
  std::vector<std::string> fault_texts;
  std::vector<FaultOption> faults;
};

// Prints the final line (and the summary with --json); the exit code.
int report(const TrainArgs& args, const Json& summary, const std::string& run_dir);

// One worker of a launch, until the job ends; the exit code.
int run_as_rank(const TrainArgs& args, const launch::RankIdentity& id);

}  // namespace trireme::cli
