// Starting ranks: local processes of this host, and the environment by which a rank learns who it is.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/runtime/processes.h"
#include "trireme/runtime/sync.h"

namespace trireme::launch {

// Who this process is, when a launcher started it.
struct RankIdentity {
  int rank = 0;
  int world = 1;
  std::string rendezvous;  // directory where the ranks meet
};

// From TRIREME_RANK, TRIREME_WORLD, TRIREME_RENDEZVOUS as looked up by `get` (null: not set). Empty when this
// process was not launched; an error when the variables make no sense.
Result<std::optional<RankIdentity>> rank_from_environment(const std::function<const char*(const char*)>& get);

struct LaunchSpec {
  std::vector<std::string> argv;  // of every rank; argv[0] == "" is this binary
  int world = 1;
  std::string rendezvous;              // an existing directory
  std::vector<std::string> log_paths;  // per rank: stdout and stderr of ranks other than 0
  TimeNs grace = 5 * kSecond;          // what the others get to end by themselves after the first failure
};

struct RankExit {
  runtime::ExitStatus status;
  bool killed_by_launcher = false;
};

// Starts all ranks and waits until every one ended. When one fails, the others get `grace`, then they are
// killed, so the call ends whatever the ranks do. While it runs, interrupts of
// this process (Ctrl-C, a batch system's SIGTERM) are passed on to every rank: the first asks them to save
// and stop, the second ends them.
runtime::Task<Result<std::vector<RankExit>>> launch_local(runtime::Runtime& rt, LaunchSpec spec);

}  // namespace trireme::launch
