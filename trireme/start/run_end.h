// What a process that trains leaves in its run folder: who it is while it runs, and how it ended.
#pragma once

#include "trireme/record/run_folder.h"
#include "trireme/start/run_observer.h"

namespace trireme::start {

// This process; `command` empty: its own command line.
record::RunOwner this_owner(const std::string& command);

// Writes into run.json how it ended: `summary` is that of the run, or the failure; `roles` says who its ranks
// were. A file that cannot be written is a warning on the observer's lines: the run is over.
runtime::Task<void> note_end(runtime::Runtime& rt, record::RunFolder& folder, const Result<Json>& summary,
                             const job::Roles& roles, const RunObserver& observer);

}  // namespace trireme::start
