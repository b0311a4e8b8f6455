// What rank 0 tells the others before a job starts that no launcher of ours prepared: where the run folder
// is, that there is nothing to do, or why it cannot start.
#pragma once

#include <string>
#include <vector>

#include "trireme/net/transport.h"

namespace trireme::start {

struct StartNote {
  std::string run_dir;
  bool finished = false;  // the run in this folder is done
  Status failure;         // rank 0 could not open the folder; the others then fail with it too
};

// Rank 0 sends `note`, the others get it there. Ends at the latest after some seconds.
runtime::Task<Status> share_start_note(runtime::Runtime& rt, net::Transport& transport, StartNote& note);

// After it, everybody: rank 0 learns on which hosts the ranks are, each once, in order of ranks; the others
// get nothing.
runtime::Task<Result<std::vector<std::string>>> gather_hosts(runtime::Runtime& rt, net::Transport& transport,
                                                             std::string host);

}  // namespace trireme::start
