#include "trireme/start/run_end.h"

#include "trireme/launch/remote.h"
#include "trireme/runtime/real/this_process.h"

namespace trireme::start {

record::RunOwner this_owner(const std::string& command) {
  record::RunOwner owner;
  owner.host = runtime::host_name();
  owner.pid = runtime::process_id();
  owner.command = command;
  if (!command.empty()) return owner;
  for (const std::string& word : runtime::command_line())
    owner.command += (owner.command.empty() ? "" : " ") + launch::shell_quote(word);
  return owner;
}

runtime::Task<void> note_end(runtime::Runtime& rt, record::RunFolder& folder, const Result<Json>& summary,
                             const RunObserver& observer) {
  record::RunState state = record::RunState::kFailed;
  if (summary.ok())
    state = summary->value("finished", false) ? record::RunState::kDone : record::RunState::kStopped;
  const Status written = co_await record::close_run_folder(rt, folder, state, summary.status());
  if (!written.ok()) observer.line(fmt::format("warning: {}", written.message()));
}

}  // namespace trireme::start
