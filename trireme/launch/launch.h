// Starting ranks and waiting for them: processes of this host, or what remote.h makes. How a rank learns who
// it is: environment.h.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/launch/environment.h"
#include "trireme/runtime/processes.h"
#include "trireme/runtime/sync.h"

namespace trireme::launch {

struct LaunchSpec {
  std::vector<std::string> argv;  // of every rank; argv[0] == "" is this binary
  int world = 1;
  std::string rendezvous;              // an existing directory
  std::vector<std::string> log_paths;  // per rank: stdout and stderr of ranks other than 0
  TimeNs grace = 5 * kSecond;          // what the others get to end by themselves after the first failure
  // Ranks that may fail while the others go on. Where there are some, the end of rank 0 is the end of the
  // job: the others get `grace`.
  std::vector<bool> expendable = {};
  // Takes what rank 0 writes to standard output where that comes in a HostReport.
  std::function<void(std::string_view)> output = {};
};

// A process that stands for a rank, or for all ranks of another host.
struct RankProcess {
  runtime::ProcessSpec process;
  std::vector<int> ranks;
  // Not empty: process.stdout_path is a HostReport (remote.h) with this mark, which says how each rank ended.
  // Empty: the end of the process is the end of its rank.
  std::string mark = {};
};

struct RankExit {
  runtime::ExitStatus status;
  bool killed_by_launcher = false;
  std::string said = {};  // of a rank in a HostReport other than 0: its last line, or ssh's
};

// Starts all ranks and waits until every one ended. A connection that sshd dropped before a rank began is
// made again. When one fails, the others get `grace`, then they are killed, so the call ends whatever the
// ranks do. While it runs, interrupts of this process (Ctrl-C, a batch system's SIGTERM) are passed on to
// every rank: the first asks them to save and stop, the second ends them.
runtime::Task<Result<std::vector<RankExit>>> launch_local(runtime::Runtime& rt, LaunchSpec spec);

// The same for ranks whose processes are described; of `spec` only world, grace, expendable and output count.
runtime::Task<Result<std::vector<RankExit>>> launch_ranks(runtime::Runtime& rt,
                                                          std::vector<RankProcess> processes,
                                                          LaunchSpec spec);

}  // namespace trireme::launch
