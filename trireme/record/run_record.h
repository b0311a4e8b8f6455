// run.json: what a run folder says about the command that trained in it last: when, where, with which
// version, and how it ended. Written when a command starts and when it ends; bytes: docs/format_checkpoint.md
// section 11.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/job/roles.h"
#include "trireme/runtime/files.h"

namespace trireme::record {

// kDied is never written: a record says that it runs, and nobody holds the folder's lock.
enum class RunState : std::uint8_t { kRunning, kDone, kStopped, kFailed, kDied };
std::string_view name_of(RunState state);

// The process that trains in a folder.
struct RunOwner {
  std::string host;
  std::int64_t pid = 0;
  std::string command;
};

struct RunRecord {
  std::string version, build, command;
  std::vector<std::string> hosts;  // of all ranks, each once
  std::string started, ended;      // UTC, "2026-11-16T23:35:01Z"; ended is empty while it runs
  RunState state = RunState::kRunning;
  // Where the run failed:
  std::optional<int> culprit;  // a rank
  Json coordinates = nullptr;  // its own, {"data": 1, "model": 0}; null where the mesh has one axis
  std::string operation, reason;
};
Json to_json(const RunRecord& record);
Result<RunRecord> run_record_from_json(const Json& json);

// A command that starts now.
RunRecord begin_record(const RunOwner& owner, std::int64_t unix_ns);
// How it ended. A failure leaves its culprit, with its place among the ranks, operation and reason (the
// message where it has no reason).
void end_record(RunRecord& record, RunState state, const Status& failure, const job::Roles& roles,
                std::int64_t unix_ns);

// In `run_dir`. Written atomically. Reading fails with kNotFound in folders of older versions.
runtime::Task<Status> write_run_record(runtime::Runtime& rt, std::string run_dir, RunRecord record);
runtime::Task<Result<RunRecord>> read_run_record(runtime::Runtime& rt, std::string run_dir);

// "running since ...", "stopped at ...", "failed at ...: rank 2: ...", "died (started ...)". A culprit that
// has coordinates is "rank 2 (data 1, model 0)".
std::string describe(const RunRecord& record);

// The lock of a run folder: its path, what its holder writes, and a holder in words ("process 7 on a since
// ... (trireme train)").
std::string lock_path(const std::string& run_dir);
std::string holder_text(const RunOwner& owner, std::int64_t unix_ns);
std::string describe_holder(std::string_view holder);

// "2026-11-16T23:35:01Z"
std::string utc_text(std::int64_t unix_ns);

}  // namespace trireme::record
