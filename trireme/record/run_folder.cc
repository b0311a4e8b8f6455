#include "trireme/record/run_folder.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "trireme/record/extend_run.h"

namespace trireme::record {
namespace {

using runtime::Task;

Task<Result<job::Job>> job_of(runtime::Runtime& rt, std::string folder) {
  const std::string path = folder + "/job.toml";
  Result<Bytes> bytes = co_await rt.files().read(path);
  if (!bytes.ok()) co_return bytes.status();
  co_return job::parse_job(as_text(*bytes), path);
}

// The summary of a run that ended; empty when there is none or it stopped half-way.
Task<std::optional<Json>> read_finished(runtime::Runtime& rt, std::string path) {
  Result<Bytes> bytes = co_await rt.files().read(path + "/summary.json");
  if (!bytes.ok()) co_return std::nullopt;
  Result<Json> json = parse_json(as_text(*bytes), path + "/summary.json");
  if (!json.ok()) co_return std::nullopt;
  const Result<bool> finished = json_get<bool>(*json, "finished");
  if (!finished.ok() || !*finished) co_return std::nullopt;
  const Result<job::Job> job = co_await job_of(rt, path);
  if (job.ok() && !is_of_job(*json, *job)) co_return std::nullopt;  // it began to train longer
  co_return std::move(*json);
}

// The n of all runs/<name>-<n>, the highest first.
Task<std::vector<int>> numbers_of_runs(runtime::Runtime& rt, std::string runs_dir, std::string name) {
  std::vector<int> numbers;
  Result<std::vector<std::string>> entries = co_await rt.files().list(runs_dir);
  if (!entries.ok()) co_return numbers;
  const std::string prefix = name + "-";
  for (const std::string& entry : *entries) {
    if (!entry.starts_with(prefix)) continue;
    int n = 0;
    const char* end = entry.data() + entry.size();
    const auto [at, failure] = std::from_chars(entry.data() + prefix.size(), end, n);
    if (failure == std::errc() && at == end && n > 0) numbers.push_back(n);
  }
  std::sort(numbers.begin(), numbers.end(), std::greater<>());
  co_return numbers;
}

// Keys of the folder's job that decide the result and differ from those of `job`.
Task<Result<std::string>> diff_to_folder(runtime::Runtime& rt, const RunFolder& folder, const job::Job& job) {
  TR_CO_ASSIGN_OR_RETURN(const job::Job before, co_await job_of(rt, folder.path));
  co_return job::diff_jobs(before, job);
}

// A finished run stays so, goes on where the job asks for more (`ended` is then its job so far), and is
// refused where the job is another one.
Task<Status> look_at_finished(runtime::Runtime& rt, RunFolder& folder, const job::Job& job,
                              std::optional<job::Job>& ended) {
  const Result<job::Job> before = co_await job_of(rt, folder.path);
  if (!before.ok()) co_return Status();  // a summary alone can still be shown
  const std::string diff = job::diff_jobs(*before, job);
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

Task<Status> refuse_other_job(runtime::Runtime& rt, const RunFolder& folder, const job::Job& job) {
  TR_CO_ASSIGN_OR_RETURN(const std::string diff, co_await diff_to_folder(rt, folder, job));
  if (diff.empty()) co_return Status();
  Result<RunRecord> record = co_await read_run_record(rt, folder.path);
  // Whoever asks holds the lock.
  if (record.ok() && record->state == RunState::kRunning) record->state = RunState::kDied;
  co_return error(Code::kInvalid,
                  "[train] {} holds an unfinished run of a different job{}:\n{}finish it with its own "
                  "settings, or use another --run-dir or name (--set name=...)",
                  folder.path, record.ok() ? fmt::format(", {}", describe(*record)) : "", diff);
}

Status is_trained(const std::string& path, const std::string& holder) {
  return error(Code::kInvalid,
               "[train] {} is being trained by {}; wait until that ends, or use another --run-dir", path,
               describe_holder(holder));
}

// Where the file system has no locks, nobody holds one.
Task<std::optional<std::string>> holder_of(runtime::Runtime& rt, std::string path) {
  Result<std::optional<std::string>> holder = co_await rt.files().lock_holder(lock_path(path));
  if (!holder.ok()) co_return std::nullopt;
  co_return std::move(*holder);
}

Task<Result<std::string>> choose_path(runtime::Runtime& rt, const job::Job& job, std::string runs_dir) {
  const std::vector<int> numbers = co_await numbers_of_runs(rt, runs_dir, job.name);
  const auto path_of = [&](int n) { return fmt::format("{}/{}-{}", runs_dir, job.name, n); };
  const int newest = numbers.empty() ? 0 : numbers.front();
  bool newest_is_free = false;
  for (const int n : numbers) {
    RunFolder folder;
    folder.path = path_of(n);
    const std::optional<Json> finished = co_await read_finished(rt, folder.path);
    if (finished) continue;
    const Result<std::string> diff = co_await diff_to_folder(rt, folder, job);
    const bool is_same = diff.ok() && diff->empty();
    const std::optional<std::string> holder = co_await holder_of(rt, folder.path);
    // Another job that runs is left alone; whoever has not yet written which job it runs may run this one.
    if (holder && (is_same || !diff.ok())) co_return is_trained(folder.path, *holder);
    if (holder) continue;
    if (is_same) co_return folder.path;
    if (n == newest) newest_is_free = true;
  }
  co_return path_of(newest_is_free ? newest : newest + 1);
}

// The folder exists.
Task<Status> lock_folder(runtime::Runtime& rt, RunFolder& folder, RunOwner owner) {
  Result<runtime::LockAttempt> attempt =
      co_await rt.files().try_lock(lock_path(folder.path), holder_text(owner, rt.unix_time_ns()));
  if (!attempt.ok()) co_return attempt.status();
  if (attempt->holder) co_return is_trained(folder.path, *attempt->holder);
  if (!attempt->has_locks)
    rt.log(fmt::format("warning: the file system of {} has no locks: start no second command there",
                       folder.path));
  folder.lock = std::move(attempt->lock);
  co_return Status();
}

}  // namespace

Task<std::vector<std::string>> folders_to_resume(runtime::Runtime& rt, std::string name,
                                                 std::string explicit_dir, std::string runs_dir) {
  std::vector<std::string> folders;
  if (!explicit_dir.empty()) {
    folders.push_back(std::move(explicit_dir));
    co_return folders;
  }
  const std::vector<int> numbers = co_await numbers_of_runs(rt, runs_dir, name);
  for (const int n : numbers) {
    std::string path = fmt::format("{}/{}-{}", runs_dir, name, n);
    const std::optional<Json> finished = co_await read_finished(rt, path);
    if (!finished) folders.push_back(std::move(path));
  }
  co_return folders;
}

Task<Result<RunFolder>> open_run_folder(runtime::Runtime& rt, const job::Job& job, std::string explicit_dir,
                                        std::string runs_dir, RunOwner owner) {
  RunFolder folder;
  runtime::Files& files = rt.files();
  if (!explicit_dir.empty()) {
    folder.path = explicit_dir;
    const std::optional<std::string> holder = co_await holder_of(rt, folder.path);
    if (holder) co_return is_trained(folder.path, *holder);
    folder.finished = co_await read_finished(rt, folder.path);
  } else {
    TR_CO_ASSIGN_OR_RETURN(folder.path, co_await choose_path(rt, job, runs_dir));
  }
  std::optional<job::Job> ended;
  if (folder.finished) TR_CO_RETURN_IF_ERROR(co_await look_at_finished(rt, folder, job, ended));
  if (folder.finished) co_return folder;
  Status made = co_await files.make_dirs(folder.file("log"));
  if (made.ok()) made = co_await files.make_dirs(folder.checkpoints());
  if (!made.ok()) co_return error(made.code(), "{}; choose another --run-dir", made.message());
  const Status locked = co_await lock_folder(rt, folder, owner);
  if (!locked.ok()) co_return locked;
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
  const std::string text = job::to_toml(job);
  Status written = co_await files.write_atomic(folder.file("job.toml"), as_bytes(text));
  if (!written.ok()) co_return written;
  folder.record = begin_record(owner, rt.unix_time_ns());
  written = co_await write_run_record(rt, folder.path, *folder.record);
  if (!written.ok()) co_return written;
  co_return folder;
}

Task<Result<RunFolder>> open_run_folder(runtime::Runtime& rt, const job::Job& job, std::string explicit_dir,
                                        std::string runs_dir) {
  return open_run_folder(rt, job, std::move(explicit_dir), std::move(runs_dir), RunOwner());
}

Task<Status> close_run_folder(runtime::Runtime& rt, RunFolder& folder, RunEnding ending) {
  if (!folder.record) co_return Status();
  end_record(*folder.record, ending.state, ending.failure, ending.roles, rt.unix_time_ns());
  const Status written = co_await write_run_record(rt, folder.path, *folder.record);
  folder.lock.reset();
  co_return written;
}

}  // namespace trireme::record
