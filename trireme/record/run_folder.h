// Run folder: runs/<name>-<n>/ or --run-dir. Which one a command uses, and what it finds there.
//
//   job.toml  plan.json  metrics.jsonl  summary.json  run.json  run.lock  checkpoints/  log/rank-N.log
//
// One command at a time trains in a folder: it holds the lock run.lock from open_run_folder() on, and
// run.json (run_record.h) says how it stands.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/job/job.h"
#include "trireme/record/run_record.h"
#include "trireme/record/summary.h"
#include "trireme/runtime/files.h"

namespace trireme::record {

struct RunFolder {
  std::string path;
  bool resumed = false;          // it held an unfinished run of this job, or a finished one to train longer
  std::optional<Json> finished;  // the summary of a finished run (only with an explicit folder)
  // Not finished: this command trains here.
  std::shared_ptr<runtime::FileLock> lock;  // null where the file system has none
  std::optional<RunRecord> record;          // as in run.json

  std::string file(std::string_view name) const { return path + "/" + std::string(name); }
  std::string checkpoints() const { return file("checkpoints"); }
  std::string log_of(int rank) const { return path + "/log/rank-" + std::to_string(rank) + ".log"; }
};

// Folders whose run the job might resume: `explicit_dir`, or the unfinished runs/<name>-<n>, newest first.
runtime::Task<std::vector<std::string>> folders_to_resume(runtime::Runtime& rt, std::string name,
                                                          std::string explicit_dir, std::string runs_dir);

// Finds or makes the folder, locks it for `owner`, writes job.toml and run.json. `explicit_dir` empty: the
// newest unfinished runs/<name>-<n> of this job; otherwise the newest of all when it is unfinished and nobody
// trains it, else a new one. A folder in which somebody trains is refused with who that is; a run of a
// different job with the keys that differ. A finished run whose job asks for more epochs or steps now goes on
// (extend_run.h).
runtime::Task<Result<RunFolder>> open_run_folder(runtime::Runtime& rt, const job::Job& job,
                                                 std::string explicit_dir, std::string runs_dir,
                                                 RunOwner owner);
// For nobody in particular. No default argument: GCC 12 destroys one of a coroutine twice.
runtime::Task<Result<RunFolder>> open_run_folder(runtime::Runtime& rt, const job::Job& job,
                                                 std::string explicit_dir, std::string runs_dir);

// How a command ended, and the ranks that it had.
struct RunEnding {
  RunState state = RunState::kDone;
  Status failure = {};
  job::Roles roles = {};
};
// Writes it into run.json, and gives the lock back. Nothing for a folder that was found finished.
runtime::Task<Status> close_run_folder(runtime::Runtime& rt, RunFolder& folder, RunEnding ending);

}  // namespace trireme::record
