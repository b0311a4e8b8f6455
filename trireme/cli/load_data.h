// The data set a job names, and the job as the data settles it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/data/dataset.h"
#include "trireme/job/job.h"

namespace trireme::cli {

struct LoadedData {
  std::shared_ptr<const data::Dataset> set;
  std::vector<std::string> notes;  // what was picked, and what looks wrong; for print_note
};

// Loads the data and settles what the job leaves open (train/settle_job.h), unless it is settled already. A
// run that the job would resume (in `run_dir`; empty: the newest one of its name) goes on as it was settled.
runtime::Task<Result<LoadedData>> load_dataset(runtime::Runtime& rt, job::Job& job, bool settled = false,
                                               std::string run_dir = {});

// Prints the notes on standard error.
void print_notes(const LoadedData& data);

}  // namespace trireme::cli
