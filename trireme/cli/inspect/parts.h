// Subcommands of inspect beside the plain tables, and what they share.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/base/near_names.h"
#include "trireme/cli/command.h"
#include "trireme/cli/job_source.h"
#include "trireme/job/assume_input.h"
#include "trireme/prepare/model_report.h"

namespace trireme::cli {

std::function<int()> add_inspect_model(Options& inspect);
std::function<int()> add_inspect_graph(Options& inspect);
std::function<int()> add_inspect_schedules(Options& inspect);
std::function<int()> add_inspect_job(Options& inspect);

// Rows of the tables: at least "name" and "doc".
Json list_models();
Json list_optimizers();
Json list_schedules();
Json list_layers();
Json list_styles();
Json list_data();
Json list_job_keys();
void print_rows(const Json& rows);

// docs/job.md.
std::string job_page();

// A job file, a model of the zoo by name, or the built-in job; and what its model reads.
struct InspectSource {
  JobSource source;
  std::string shape;
  std::int64_t classes = 0, batch = 0;
};
void add_inspect_source(Options& app, InspectSource& args);

struct InspectedModel {
  job::Job job;
  job::AssumedInput input;
  int compute_threads = 1;  // of this host
};
// The job as `train` would run it: what it leaves open is picked by its data, which is read as for training,
// after `change` (options of the command) was applied. Without the data (--shape, --classes, a model of the
// zoo, files that cannot be read) the input is assumed; a note on standard error says which model and why.
Result<InspectedModel> load_inspected(const InspectSource& args,
                                      const std::function<Status(job::Job&)>& change = {});

// For `change`: an option --mesh wins over the mesh and the workers of the job. Empty: not given.
void take_mesh(const std::string& mesh, job::Job& job);

// "mlp, batch 16; samples [4] (of the data), 3 classes"
std::string headline(const InspectedModel& model);
// The same by name, for JSON.
Json headline_json(const InspectedModel& model);

void print_text(std::string_view text);

}  // namespace trireme::cli
