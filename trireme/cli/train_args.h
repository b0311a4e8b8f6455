// What `trireme train` was asked to do, and its sides: the launcher (train.cc), the launcher of other hosts
// (train_hosts.cc) and a rank (train_rank.cc).
#pragma once

#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/cli/faults.h"
#include "trireme/cli/job_source.h"
#include "trireme/cli/slow.h"
#include "trireme/launch/environment.h"
#include "trireme/runtime/task.h"

namespace trireme::cli {

struct TrainArgs {
  JobSource job;
  std::string job_text;  // not empty: the whole job as TOML, from a launcher on another host
  std::string command;   // not empty: what the user typed on another host
  std::string run_dir;
  int workers = 0;          // 0: as the job says
  int servers = -1;         // -1: as the job says
  std::string transport;    // "": as the job says
  std::string device;       // empty: as the job says
  std::string coordinator;  // "": as the launcher says
  std::string hosts;        // "": this host alone; a file
  std::string ssh = "ssh -o BatchMode=yes -o ConnectTimeout=10";
  std::string remote_binary;  // "": where this binary is
  bool insecure = false;
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  bool prepared = false;  // this rank was started by our own launcher, which made the run folder
  std::vector<std::string> fault_texts;
  std::vector<FaultOption> faults;
  std::vector<std::string> slow_texts;
  std::vector<SlowOption> slow;
};

// What the options change in the job, but for --workers, which the number of ranks may decide.
void apply_options(const TrainArgs& args, job::Job& job);
// The options that every rank is given again.
std::vector<std::string> passed_on(const TrainArgs& args);
// By rank: it may be lost while the others go on.
std::vector<bool> expendable_ranks(const job::Job& job);

// Prints the final line (and the summary with --json); the exit code.
int report(const TrainArgs& args, const Json& summary, const std::string& run_dir);

// One rank of a launch, until the job ends; the exit code.
int run_as_rank(const TrainArgs& args, const launch::RankIdentity& id);

// Starts the ranks on the hosts of args.hosts and waits; the exit code of the first.
runtime::Task<Result<int>> run_on_hosts(runtime::Runtime& rt, const TrainArgs& args, job::Job job);

}  // namespace trireme::cli
