// Run folder: runs/<name>-<n>/ or --run-dir. Which one a command uses, and what it finds there.
//
//   job.toml  plan.json  metrics.jsonl  summary.json  checkpoints/  log/rank-N.log
#pragma once

#include <optional>
#include <string>

#include "trireme/runtime/files.h"
#include "trireme/train/job.h"
#include "trireme/train/summary.h"

namespace trireme::train {

struct RunFolder {
  std::string path;
  bool resumed = false;          // it held an unfinished run of this job
  std::optional<Json> finished;  // the summary of a finished run (only with an explicit folder)
  std::string of_another_job;    // finished: keys that differ from this job's, a line each; empty: none does

  std::string file(std::string_view name) const { return path + "/" + std::string(name); }
  std::string checkpoints() const { return file("checkpoints"); }
  std::string log_of(int rank) const { return path + "/log/rank-" + std::to_string(rank) + ".log"; }
};

// The folder whose run the job would resume: `explicit_dir`, or the newest runs/<name>-<n> when it is
// unfinished. Empty: a new one would be made.
runtime::Task<std::string> folder_to_resume(runtime::Runtime& rt, std::string name, std::string explicit_dir,
                                            std::string runs_dir);

// Finds or makes the folder and writes job.toml. `explicit_dir` empty: the newest runs/<name>-<n> when it is
// unfinished, otherwise a new one. An unfinished run of a different job is refused with the keys that differ.
runtime::Task<Result<RunFolder>> open_run_folder(runtime::Runtime& rt, const Job& job,
                                                 std::string explicit_dir, std::string runs_dir);

}  // namespace trireme::train
