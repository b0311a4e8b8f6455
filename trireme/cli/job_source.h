// Where a command's job comes from: a file or the built-in default, with --set on top.
#pragma once

#include <string>
#include <vector>

#include "trireme/cli/options.h"
#include "trireme/job/job.h"
#include "trireme/runtime/files.h"

namespace trireme::cli {

struct JobSource {
  std::string path;               // empty: the built-in default job
  std::vector<std::string> sets;  // "train.epochs=5"
};

void add_job_options(Options& app, JobSource& source);
runtime::Task<Result<job::Job>> read_job(runtime::Runtime& rt, std::string path);
runtime::Task<Result<job::Job>> load_job(runtime::Runtime& rt, const JobSource& source);

}  // namespace trireme::cli
