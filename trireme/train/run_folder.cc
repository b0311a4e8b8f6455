#include "trireme/train/run_folder.h"

#include <charconv>

#include "trireme/train/extend_run.h"

namespace trireme::train {
namespace {

using runtime::Task;

Task<Result<Job>> job_of(runtime::Runtime& rt, std::string folder) {
  const std::string path = folder + "/job.toml";
  Result<Bytes> bytes = co_await rt.files().read(path);
  if (!bytes.ok()) co_return bytes.status();
  co_return parse_job(as_text(*bytes), path);
}

// The summary of a run that ended; empty when there is none or it stopped half-way.
Task<std::optional<Json>> read_finished(runtime::Runtime& rt, std::string path) {
  Result<Bytes> bytes = co_await rt.files().read(path + "/summary.json");
  if (!bytes.ok()) co_return std::nullopt;
  Result<Json> json = parse_json(as_text(*bytes), path + "/summary.json");
  if (!json.ok()) co_return std::nullopt;
  const Result<bool> finished = json_get<bool>(*json, "finished");
  if (!finished.ok() || !*finished) co_return std::nullopt;
  const Result<Job> job = co_await job_of(rt, path);
  if (job.ok() && !is_of_job(*json, *job)) co_return std::nullopt;  // it began to train longer
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
  TR_CO_ASSIGN_OR_RETURN(const Job before, co_await job_of(rt, folder.path));
  co_return diff_jobs(before, job);
}

// A finished run stays so, goes on where the job asks for more (`ended` is then its job so far), and is
// refused where the job is another one.
Task<Status> look_at_finished(runtime::Runtime& rt, RunFolder& folder, const Job& job,
                              std::optional<Job>& ended) {
  const Result<Job> before = co_await job_of(rt, folder.path);
  if (!before.ok()) co_return Status();  // a summary alone can still be shown
  const std::string diff = diff_jobs(*before, job);
  if (diff.empty()) co_return Status();
  if (!trains_longer(*before, job))
    co_return error(Code::kInvalid,
                    "[train] {} holds a finished run of a different job:\n{}use another --run-dir for this "
                    "one; more train.epochs or train.steps alone would train the finished run on",
                    folder.path, diff);
  folder.finished.reset();
  ended = *before;
  co_return Status();
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
  std::optional<Job> ended;
  if (folder.finished) TR_CO_RETURN_IF_ERROR(co_await look_at_finished(rt, folder, job, ended));
  if (folder.finished) co_return folder;
  Result<bool> has_job = co_await files.exists(folder.file("job.toml"));
  if (!has_job.ok()) co_return has_job.status();
  // A start that failed before there was a plan has nothing to lose.
  Result<bool> has_plan = co_await files.exists(folder.file("plan.json"));
  if (!has_plan.ok()) co_return has_plan.status();
  if (ended) {
    Status extended = co_await extend_run(rt, folder.path, *ended, job);
    if (!extended.ok()) co_return extended;
  } else if (*has_plan && *has_job) {
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
