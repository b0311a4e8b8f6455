// What `eval` and `predict` share: which model, by which processes, and running one task to its end.
#pragma once

#include <string>
#include <vector>

#include "trireme/apply/score_model.h"
#include "trireme/cli/command.h"

namespace trireme::cli {

struct TrainedArgs {
  apply::ModelSource source;
  std::string data_path;  // --data.path: short for --set data.path=...
  int workers = 0;        // 0: as the mesh says
  std::string mesh;       // "": this process has the whole model, unless there are workers
  std::vector<std::string> faults;
};
void add_trained_options(Options& app, TrainedArgs& args);

// What is done with a trained model.
struct ModelUse {
  const char* name;  // of the command
  // What can be refused before the model is opened; null: nothing.
  std::function<runtime::Task<Status>(runtime::Runtime&)> check_first = {};
  // What ranks would be refused. Asked before they start: the model has no tensors yet.
  std::function<runtime::Task<Status>(runtime::Runtime&, const apply::LoadedModel&, const parallel::Mesh&)>
      check_ranks;
  // By every rank of a mesh together, or by this process alone. One of them tells the user.
  std::function<runtime::Task<Status>(runtime::Runtime&, const apply::LoadedModel&, bool tells)> run;
};
// Loads the model, prints its notes on standard error and uses it: in this process, or in ranks that it
// starts or is one of. A failure is printed. The exit code.
int use_model(TrainedArgs args, const ModelUse& use);

// "note: ..." on standard error.
void print_note(std::string_view text);

// A line on standard error that redraws itself; none where it is no terminal, or when quiet.
apply::BatchProgress batch_progress(bool quiet);

}  // namespace trireme::cli
