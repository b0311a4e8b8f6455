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
  bool resumed = false;          // it held an unfinished run of this job, or a finished one to train longer
  std::optional<Json> finished;  // the summary of a finished run (only with an explicit folder)

  std::string file(std::string_view name) const { return path + "/" + std::string(name); }
  std::string checkpoints() const { return file("checkpoints"); }
  std::string log_of(int rank) const { return path + "/log/rank-" + std::to_string(rank) + ".log"; }
};

// Finds or makes the folder and writes job.toml. `explicit_dir` empty: the newest runs/<name>-<n> when it is
// unfinished, otherwise a new one. A run of a different job is refused with the keys that differ; a finished
// one whose job asks for more epochs or steps now goes on (extend_run.h).
runtime::Task<Result<RunFolder>> open_run_folder(runtime::Runtime& rt, const Job& job,
                                                 std::string explicit_dir, std::string runs_dir);

}  // namespace trireme::train
