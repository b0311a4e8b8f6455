// What rank 0 tells the others before a job starts that no launcher of ours prepared: where the run folder
// is, that there is nothing to do, or why it cannot start.
#pragma once

#include <string>

#include "trireme/net/transport.h"

namespace trireme::cli {

struct StartNote {
  std::string run_dir;
  bool finished = false;  // the run in this folder is done
  Status failure;         // rank 0 could not open the folder; the others then fail with it too
};

// Rank 0 sends `note`, the others get it there. Ends at the latest after some seconds.
runtime::Task<Status> share_start_note(runtime::Runtime& rt, net::Transport& transport, StartNote& note);

}  // namespace trireme::cli
