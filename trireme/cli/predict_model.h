// What `eval` and `predict` share: which model, and running one task to its end.
#pragma once

#include <string>

#include "trireme/apply/score_model.h"
#include "trireme/cli/command.h"

namespace trireme::cli {

struct TrainedArgs {
  apply::ModelSource source;
  std::string data_path;  // --data.path: short for --set data.path=...
};
void add_trained_options(Options& app, TrainedArgs& args);

// Loads and prints the model's notes on standard error.
runtime::Task<Result<apply::LoadedModel>> load_trained(runtime::Runtime& rt, TrainedArgs args);

// "note: ..." on standard error.
void print_note(std::string_view text);

// A line on standard error that redraws itself; none where it is no terminal, or when quiet.
apply::BatchProgress batch_progress(bool quiet);

// Runs `task` on a Runtime of its own; a failure is printed. The exit code.
int run_and_report(const char* name, const std::function<runtime::Task<Status>(runtime::Runtime&)>& task);

}  // namespace trireme::cli
