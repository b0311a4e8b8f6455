#include "trireme/train/run_folder.h"

#include <charconv>

namespace trireme::train {
namespace {

using runtime::Task;

// The summary of a run that ended; empty when there is none or it stopped half-way.
Task<std::optional<Json>> read_finished(runtime::Runtime& rt, std::string path) {
  Result<Bytes> bytes = co_await rt.files().read(path + "/summary.json");
  if (!bytes.ok()) co_return std::nullopt;
  Result<Json> json = parse_json(as_text(*bytes), path + "/summary.json");
  if (!json.ok()) co_return std::nullopt;
  const Result<bool> finished = json_get<bool>(*json, "finished");
  if (!finished.ok() || !*finished) co_return std::nullopt;
  co_return std::move(*json);
}

// Highest n of runs/<name>-<n>, 0 when there is none.
Task<int> newest_run(runtime::Runtime& rt, std::string runs_dir, std::string name) {
  int newest = 0;
  Result<std::vector<std::string>> entries = co_await rt.files().list(runs_dir);
  if (!entries.ok()) co_return newest;
  const std::string prefix = name + "-";
  for (const std::string& entry : *entries) {
    if (!entry.starts_with(prefix)) continue;
    int n = 0;
    const char* end = entry.data() + entry.size();
    const auto [at, failure] = std::from_chars(entry.data() + prefix.size(), end, n);
    if (failure == std::errc() && at == end && n > newest) newest = n;
  }
  co_return newest;
}

// Keys of the folder's job that decide the result and differ from those of `job`.
Task<Result<std::string>> diff_to_folder(runtime::Runtime& rt, const RunFolder& folder, const Job& job) {
  const std::string path = folder.file("job.toml");
  Result<Bytes> bytes = co_await rt.files().read(path);
  if (!bytes.ok()) co_return bytes.status();
  TR_CO_ASSIGN_OR_RETURN(const Job before, parse_job(as_text(*bytes), path));
  co_return diff_jobs(before, job);
}

Task<Status> refuse_other_job(runtime::Runtime& rt, const RunFolder& folder, const Job& job) {
  TR_CO_ASSIGN_OR_RETURN(const std::string diff, co_await diff_to_folder(rt, folder, job));
  if (diff.empty()) co_return Status();
  co_return error(Code::kInvalid,
                  "[train] {} holds an unfinished run of a different job:\n{}finish it with its own "
                  "settings, or use another --run-dir or name (--set name=...)",
                  folder.path, diff);
}

}  // namespace

Task<std::string> folder_to_resume(runtime::Runtime& rt, std::string name, std::string explicit_dir,
                                   std::string runs_dir) {
  if (!explicit_dir.empty()) co_return explicit_dir;
  const int newest = co_await newest_run(rt, runs_dir, name);
  const std::string last = fmt::format("{}/{}-{}", runs_dir, name, newest);
  if (newest == 0 || (co_await read_finished(rt, last)).has_value()) co_return "";
  co_return last;
}

Task<Result<RunFolder>> open_run_folder(runtime::Runtime& rt, const Job& job, std::string explicit_dir,
                                        std::string runs_dir) {
  RunFolder folder;
  runtime::Files& files = rt.files();
  if (!explicit_dir.empty()) {
    folder.path = explicit_dir;
    folder.finished = co_await read_finished(rt, folder.path);
  } else {
    const int newest = co_await newest_run(rt, runs_dir, job.name);
    const std::string last = fmt::format("{}/{}-{}", runs_dir, job.name, newest);
    bool unfinished = false;
    if (newest > 0) unfinished = !(co_await read_finished(rt, last)).has_value();
    folder.path = unfinished ? last : fmt::format("{}/{}-{}", runs_dir, job.name, newest + 1);
  }
  if (folder.finished) {
    const Result<std::string> diff = co_await diff_to_folder(rt, folder, job);
    if (diff.ok()) folder.of_another_job = *diff;
    co_return folder;
  }
  Result<bool> has_job = co_await files.exists(folder.file("job.toml"));
  if (!has_job.ok()) co_return has_job.status();
  // A start that failed before there was a plan has nothing to lose.
  Result<bool> has_plan = co_await files.exists(folder.file("plan.json"));
  if (!has_plan.ok()) co_return has_plan.status();
  if (*has_plan && *has_job) {
    Status same = co_await refuse_other_job(rt, folder, job);
    if (!same.ok()) co_return same;
  }
  folder.resumed = *has_job;
  Status made = co_await files.make_dirs(folder.file("log"));
  if (made.ok()) made = co_await files.make_dirs(folder.checkpoints());
  if (!made.ok()) co_return error(made.code(), "{}; choose another --run-dir", made.message());
  const std::string text = to_toml(job);
  Status written = co_await files.write_atomic(folder.file("job.toml"), as_bytes(text));
  if (!written.ok()) co_return written;
  co_return folder;
}

}  // namespace trireme::train
