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
                             const job::Roles& roles, const RunObserver& observer) {
  record::RunEnding ending;
  ending.state = record::RunState::kFailed;
  if (summary.ok())
    ending.state = summary->value("finished", false) ? record::RunState::kDone : record::RunState::kStopped;
  ending.failure = summary.status();
  ending.roles = roles;
  const Status written = co_await record::close_run_folder(rt, folder, std::move(ending));
  if (!written.ok()) observer.line(fmt::format("warning: {}", written.message()));
}

}  // namespace trireme::start
