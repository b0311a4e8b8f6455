// Starting ranks and waiting for them: processes of this host, or what remote.h makes. How a rank learns who
// it is: environment.h.
#pragma once

#include <string>
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
};

struct RankExit {
  runtime::ExitStatus status;
  bool killed_by_launcher = false;
};

// Starts all ranks and waits until every one ended. A connection that sshd dropped before the rank began is
// made again. When one fails, the others get `grace`, then they are killed, so the call ends whatever the
// ranks do. While it runs, interrupts of this process (Ctrl-C, a batch system's SIGTERM) are passed on to
// every rank: the first asks them to save and stop, the second ends them.
runtime::Task<Result<std::vector<RankExit>>> launch_local(runtime::Runtime& rt, LaunchSpec spec);

// The same for ranks that are described one by one; of `spec` only grace and expendable count.
runtime::Task<Result<std::vector<RankExit>>> launch_ranks(runtime::Runtime& rt,
                                                          std::vector<runtime::ProcessSpec> ranks,
                                                          LaunchSpec spec);

}  // namespace trireme::launch
