// Which model `inspect model`, `inspect graph` and `plan` are about: the one that `train` would train.
#include <algorithm>
#include <cstdio>

#include "trireme/cli/inspect/parts.h"
#include "trireme/cli/number_checks.h"
#include "trireme/cli/predict_model.h"
#include "trireme/cli/terminal.h"
#include "trireme/data/options.h"
#include "trireme/data/source.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/job/settle_job.h"
#include "trireme/model/zoo.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/start/load_data.h"

namespace trireme::cli {
namespace {

bool is_file_name(std::string_view text) { return text.find_first_of("./") != std::string_view::npos; }

// A job around a model of the zoo whose data nobody named: the model reads what it was published with.
Result<job::Job> job_of_model(const std::string& name) {
  std::vector<std::string_view> names;
  for (const model::ZooRow& row : model::zoo()) {
    names.emplace_back(row.name);
    if (name != row.name) continue;
    const model::ModelInput input = row.input();
    job::Job job;
    job.name = job.model.name = name;
    job.given_at["model.name"] = "the command line";
    const bool reads_text = input.task == model::ModelTask::kLanguage;
    job.data.kind = reads_text ? "text" : "idx";
    if (reads_text) job.data.options.set(data::kContext.name, input.sample_shape[0]);
    return job;
  }
  const std::string near = did_you_mean(name, names);
  return error(
      Code::kInvalid,
      "[inspect] no model is called '{}'{} `trireme inspect models` lists them all; a job file is given as a "
      "path like ./{}.toml",
      name, near.empty() ? ";" : near, name);
}

runtime::Task<void> load_file(runtime::Runtime& rt, const std::string& path, Result<job::Job>& out) {
  out = co_await read_job(rt, path);
}

bool needs_path(const job::Job& job) {
  const data::DataKind* kind = data::find_kind(job.data.kind);
  return kind != nullptr && kind->needs_path;
}

// Whether training would find something in the data that this job does not say. Of samples that are made here
// only their number counts, and the defaults fit it.
bool asks_the_data(const job::Job& job) {
  if (needs_path(job)) return true;
  return std::ranges::any_of(job.given_at, [](const auto& given) {
    return given.first == "train.batch" || given.first.starts_with("data.");
  });
}

// Why the input is assumed although training would ask the data; empty: it may be read.
std::string why_not_read(const InspectSource& args, const job::Job& job) {
  if (!args.shape.empty() || args.classes > 0)
    return fmt::format("{} is given instead", args.shape.empty() ? "--classes" : "--shape");
  return needs_path(job) && job.data.path.empty() ? "data.path is not set" : "";
}

// As training does. Where the data cannot be read the model stays as it was.
runtime::Task<void> settle_by_data(runtime::Runtime& rt, InspectedModel& model, Status& status) {
  job::Job job = model.job;
  StatusLine line(stderr_terminal(), [&rt] { return rt.now(); });
  line.show("reading the data ...");
  start::LoadSpec spec;
  spec.cache_dir = places().cache_dir;
  const Result<start::LoadedData> data = co_await start::load_dataset(rt, job, std::move(spec));
  line.clear();
  status = data.status();
  if (!status.ok()) co_return;
  const Result<model::ModelInput> input = job::model_input(job, *data->set);
  status = input.status();
  if (!status.ok()) co_return;
  for (const std::string& note : data->notes) print_note(note);
  model.job = std::move(job);
  model.input = {*input, "of the data"};
}

// What training would ask the data for, as it is assumed here.
std::string assumed_note(const InspectedModel& m, const std::string& why) {
  std::string text = fmt::format("the data is not read ({}); assumed: ", why);
  const std::vector<std::string_view> open = job::open_keys(m.job);
  for (const job::JobKey& key : job::job_keys()) {
    const bool of_model = key.path == "model.name" && m.job.model.layers.empty();
    const bool picked = std::ranges::find(m.job.picked, key.path) != m.job.picked.end();
    if ((of_model || picked || key.path == "train.batch") && std::ranges::find(open, key.path) != open.end())
      text += fmt::format("{} = {}, ", key.path, value_text(m.job, key));
  }
  return text + fmt::format("samples {} ({}), {} classes", m.input.input.sample_shape.to_string(),
                            m.input.from, m.input.input.num_classes);
}

Result<job::Job> inspected_job(runtime::RealRuntime& rt, const InspectSource& args) {
  Result<job::Job> job = job::Job{};
  const std::string& path = args.source.path;
  if (is_file_name(path)) {
    rt.run(load_file(rt, path, job));
  } else if (!path.empty()) {
    job = job_of_model(path);
  }
  TR_RETURN_IF_ERROR(job.status());
  for (const std::string& set : args.source.sets) TR_RETURN_IF_ERROR(job::set_job_key(*job, set));
  if (args.batch > 0) {
    job->train.batch = args.batch;
    job->given_at["train.batch"] = "--batch";
  }
  return job;
}

}  // namespace

void print_text(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void add_inspect_source(Options& app, InspectSource& args) {
  app.add_option("job", args.source.path, "Job file (TOML) or model of the zoo. Default: the built-in job");
  app.add_option("--set", args.source.sets, "Override keys of the job, such as model.options={width=64}")
      ->type_name("KEY=VALUE");
  app.add_option("--batch", args.batch, "Samples per step, over all workers (train.batch)")
      ->check(integer_in(1, std::int64_t{1} << 24));
  app.add_option("--shape", args.shape, "Shape of a sample, such as 3x64x64; the data is not read then");
  app.add_option("--classes", args.classes,
                 "Number of classes, or size of the vocabulary; the data is not read then")
      ->check(integer_in(1, std::int64_t{1} << 24));
}

void take_mesh(const std::string& mesh, job::Job& job) {
  if (!mesh.empty()) {
    job.parallel.mesh = mesh;
    job.given_at.erase("parallel.workers");
  }
  job::take_workers_of_mesh(job, false);
}

Result<InspectedModel> load_inspected(const InspectSource& args,
                                      const std::function<Status(job::Job&)>& change) {
  runtime::RealOptions real;
  real.name = "inspect";
  const auto rt = runtime::make_real_runtime(real);
  InspectedModel out;
  out.compute_threads = std::max(1, rt->compute_threads());
  TR_ASSIGN_OR_RETURN(out.job, inspected_job(*rt, args));
  if (change) TR_RETURN_IF_ERROR(change(out.job));
  const bool is_zoo = !args.source.path.empty() && !is_file_name(args.source.path);
  const bool would_read = asks_the_data(out.job) && !(is_zoo && out.job.data.path.empty());
  std::string why = why_not_read(args, out.job);
  if (would_read && why.empty()) {
    TR_RETURN_IF_ERROR(job::check_job(out.job));
    Status read;
    rt->run(settle_by_data(*rt, out, read));
    if (read.ok()) return out;
    why = without_areas(read.message());
  }
  std::optional<Shape> shape;
  if (!args.shape.empty()) {
    TR_ASSIGN_OR_RETURN(shape, data::parse_sample_shape(args.shape));
  }
  job::settle_model(out.job, shape);
  TR_ASSIGN_OR_RETURN(out.input, job::assume_input(out.job, args.shape, args.classes));
  if (would_read && needs_path(out.job)) print_note(assumed_note(out, why));
  return out;
}

std::string headline(const InspectedModel& m) {
  return fmt::format("{}, batch {}; samples {} ({}), {} classes\n",
                     m.job.model.layers.empty() ? m.job.model.name : "a model by layers", m.job.train.batch,
                     m.input.input.sample_shape.to_string(), m.input.from, m.input.input.num_classes);
}

Json headline_json(const InspectedModel& m) {
  return {{"model", m.job.model.layers.empty() ? m.job.model.name : "by layers"},
          {"batch", m.job.train.batch},
          {"sample_shape", m.input.input.sample_shape.to_string()},
          {"classes", m.input.input.num_classes},
          {"input_from", m.input.from}};
}

}  // namespace trireme::cli
