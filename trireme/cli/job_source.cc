#include "trireme/cli/job_source.h"

#include <fmt/format.h>

#include "trireme/cli/command.h"
#include "trireme/model/zoo.h"

namespace trireme::cli {

using runtime::Task;

void add_job_options(Options& app, JobSource& source) {
  app.add_option("job", source.path, "Job file (TOML). Default: the built-in digits");
  app.add_option("--set", source.sets,
                 "Override keys of the job, such as train.epochs=5 train.batch=64 (trireme inspect job)")
      ->type_name("KEY=VALUE");
}

namespace {

// The command that trains a model of the zoo, which was given as if it were a job file; "": it is none.
std::string as_model(const std::string& name) {
  for (const model::ZooRow& row : model::zoo()) {
    if (name != row.name) continue;
    const model::ModelInput input = row.input();
    const std::string set = fmt::format("trireme train --set model.name={}", name);
    if (input.task == model::ModelTask::kLanguage) return set + " data.kind=text data.path=FILE.txt";
    if (input.sample_shape == Shape{1, 28, 28}) return set;
    return fmt::format("{} data.kind=images data.path=FOLDER data.shape={}", set,
                       fmt::join(input.sample_shape.dims(), "x"));
  }
  return "";
}

// The command that trains on a file of samples; "": not by its name.
std::string as_data(const std::string& path) {
  const std::string set = "trireme train --set data.kind=";
  if (path.ends_with(".csv")) return fmt::format("{}csv data.path={} model.name=mlp", set, path);
  if (path.ends_with(".tsv"))
    return fmt::format("{}csv data.path={} 'data.separator=\\t' model.name=mlp", set, path);
  if (path.ends_with(".txt")) return fmt::format("{}text data.path={} model.name=char-gpt", set, path);
  if (!path.ends_with(".npy")) return "";
  const std::size_t slash = path.rfind('/');
  return fmt::format("{}npy data.path={}", set, slash == std::string::npos ? "." : path.substr(0, slash));
}

// A path that cannot be read as a job file: what it probably is, and what to type.
Task<Status> no_job_file(runtime::Runtime& rt, std::string path, Status failure) {
  if (path.find('=') != std::string::npos)
    co_return error(Code::kInvalid, "[job] '{}' is not a job file; to set a key: --set {}", path, path);
  const std::vector<std::string> files{path + ".toml", "recipes/" + path + ".toml"};
  for (const std::string& file : files) {
    const Result<bool> there = co_await rt.files().exists(file);
    if (there.ok() && *there)
      co_return error(Code::kInvalid, "[job] '{}' is not a job file; to train with one: trireme train {}",
                      path, file);
  }
  if (const std::string command = as_model(path); !command.empty())
    co_return error(Code::kInvalid, "[job] '{}' is a model, not a job file; to train it: {}", path, command);
  const Result<std::vector<std::string>> listed = co_await rt.files().list(path);
  if (listed.ok())
    co_return error(Code::kInvalid,
                    "{}; expected a job file in TOML; to train on a folder of images: trireme train --set "
                    "data.kind=images data.path={} data.shape=3x64x64",
                    failure.message(), path);
  co_return error(
      Code::kInvalid,
      "{}; expected a job file in TOML, by its path from the current folder; without one `trireme "
      "train` trains on the built-in digits",
      failure.message());
}

}  // namespace

Task<Result<job::Job>> read_job(runtime::Runtime& rt, std::string path) {
  Result<Bytes> bytes = co_await rt.files().read(path);
  if (!bytes.ok()) co_return co_await no_job_file(rt, std::move(path), bytes.status());
  if (const std::string command = as_data(path); !command.empty())
    co_return error(Code::kInvalid, "[job] '{}' holds samples and is not a job file; to train on it: {}",
                    path, command);
  co_return job::parse_job(as_text(*bytes), path);
}

Task<Result<job::Job>> load_job(runtime::Runtime& rt, const JobSource& source) {
  job::Job job;
  if (!source.path.empty()) {
    Result<job::Job> read = co_await read_job(rt, source.path);
    if (!read.ok()) co_return read.status();
    job = std::move(*read);
  }
  for (const std::string& set : source.sets) TR_CO_RETURN_IF_ERROR(job::set_job_key(job, set));
  co_return job;
}

}  // namespace trireme::cli
