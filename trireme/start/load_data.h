// The data set a job names, and the job as the data settles it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/data/dataset.h"
#include "trireme/job/job.h"
#include "trireme/prepare/memory_estimate.h"

namespace trireme::start {

struct LoadedData {
  std::shared_ptr<const data::Dataset> set;
  std::vector<std::string> notes;  // what was picked, and what looks wrong; a sentence each
};

struct LoadSpec {
  std::string cache_dir;  // of data that was read; empty: nowhere
  bool settled = false;   // the job has nothing open
  std::string run_dir;    // of the run that it might resume; empty: the newest one of its name
};

// Loads the data and settles what the job leaves open (job/settle_job.h), unless it is settled already. A run
// that the job would resume goes on as it was settled.
runtime::Task<Result<LoadedData>> load_dataset(runtime::Runtime& rt, job::Job& job, LoadSpec spec);

// The plan of the run that a settled job would resume, in `run_dir` as in LoadSpec; null: it begins. What is
// wrong with a plan is said where the run goes on.
runtime::Task<prepare::StoredPlan> stored_plan(runtime::Runtime& rt, const job::Job& job,
                                               std::string run_dir);

// Whether the model of a settled job can be cut over its mesh as asked for (prepare/tiles.h), and every stage
// of it stays below the job's memory limit, before anything is started. A run that goes on is cut as it was.
Status check_cut(const job::Job& job, const data::Dataset& data, const prepare::StoredPlan& stored = nullptr);

}  // namespace trireme::start
