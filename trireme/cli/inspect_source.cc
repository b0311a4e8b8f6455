// Which model `inspect model` and `inspect graph` are about.
#include <algorithm>
#include <cstdio>

#include "trireme/cli/inspect_parts.h"
#include "trireme/cli/number_checks.h"
#include "trireme/model/zoo.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::cli {
namespace {

bool is_file_name(std::string_view text) { return text.find_first_of("./") != std::string_view::npos; }

// A job around a model of the zoo whose data nobody named: the model reads what it was published with.
Result<train::Job> job_of_model(const std::string& name) {
  std::vector<std::string_view> names;
  for (const model::ZooRow& row : model::zoo()) {
    names.emplace_back(row.name);
    if (name != row.name) continue;
    const model::ModelInput input = row.input();
    train::Job job;
    job.name = job.model.name = name;
    const bool reads_text = input.task == model::ModelTask::kLanguage;
    job.data.kind = reads_text ? "text" : "idx";
    if (reads_text) job.data.context = input.sample_shape[0];
    return job;
  }
  const std::string near = did_you_mean(name, names);
  return error(
      Code::kInvalid,
      "[inspect] no model is called '{}'{} `trireme inspect models` lists them all; a job file is given as a "
      "path like ./{}.toml",
      name, near.empty() ? ";" : near, name);
}

runtime::Task<void> load_file(runtime::Runtime& rt, const std::string& path, Result<train::Job>& out) {
  out = co_await read_job(rt, path);
}

}  // namespace

void print_text(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void add_inspect_source(Options& app, InspectSource& args) {
  app.add_option("job", args.source.path, "Job file (TOML) or model of the zoo. Default: the built-in job");
  app.add_option("--set", args.source.sets, "Override keys of the job, such as model.options={width=64}")
      ->type_name("KEY=VALUE");
  app.add_option("--batch", args.batch, "Samples per step, over all workers (train.batch)")
      ->check(integer_in(1, std::int64_t{1} << 24));
  app.add_option("--shape", args.shape, "Shape of a sample, such as 3x64x64; the data is not read");
  app.add_option("--classes", args.classes,
                 "Number of classes, or size of the vocabulary; the data is not read")
      ->check(integer_in(1, std::int64_t{1} << 24));
}

Result<InspectedModel> load_inspected(const InspectSource& args) {
  runtime::RealOptions real;
  real.name = "inspect";
  const auto rt = runtime::make_real_runtime(real);
  Result<train::Job> job = train::Job{};
  const std::string& path = args.source.path;
  if (is_file_name(path)) {
    rt->run(load_file(*rt, path, job));
  } else if (!path.empty()) {
    job = job_of_model(path);
  }
  TR_RETURN_IF_ERROR(job.status());
  for (const std::string& set : args.source.sets) TR_RETURN_IF_ERROR(train::set_job_key(*job, set));
  if (args.batch > 0) job->train.batch = args.batch;
  InspectedModel out{.job = std::move(*job), .input = {}};
  TR_ASSIGN_OR_RETURN(out.input, train::assume_input(out.job, args.shape, args.classes));
  out.compute_threads = std::max(1, rt->compute_threads());
  return out;
}

}  // namespace trireme::cli
