#include "trireme/cli/job_source.h"

#include "trireme/cli/command.h"

namespace trireme::cli {

using runtime::Task;

void add_job_options(CLI::App& app, JobSource& source) {
  app.add_option("job", source.path, "Job file (TOML); default: the built-in digits");
  app.add_option("--set", source.sets, "Override a key of the job: train.epochs=5")->type_name("KEY=VALUE");
}

Task<Result<train::Job>> read_job(runtime::Runtime& rt, std::string path) {
  Result<Bytes> bytes = co_await rt.files().read(path);
  if (!bytes.ok() && path.find('=') != std::string::npos)
    co_return error(Code::kInvalid, "[job] '{}' is not a job file; to set a key: --set {}", path, path);
  if (!bytes.ok())
    co_return error(Code::kInvalid, "{}; expected a job file in TOML, such as recipes/digits.toml",
                    bytes.status().message());
  co_return train::parse_job(as_text(*bytes), path);
}

Task<Result<train::Job>> load_job(runtime::Runtime& rt, const JobSource& source) {
  train::Job job;
  if (!source.path.empty()) {
    Result<train::Job> read = co_await read_job(rt, source.path);
    if (!read.ok()) co_return read.status();
    job = std::move(*read);
  }
  for (const std::string& set : source.sets) TR_CO_RETURN_IF_ERROR(train::set_job_key(job, set));
  co_return job;
}

std::string cache_dir() {
  if (const char* cache = environment("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return std::string(cache) + "/trireme";
  if (const char* home = environment("HOME"); home != nullptr && *home != '\0')
    return std::string(home) + "/.cache/trireme";
  return "";
}

std::string temp_dir() {
  const char* dir = environment("TMPDIR");
  return dir != nullptr && *dir != '\0' ? dir : "/tmp";
}

}  // namespace trireme::cli
