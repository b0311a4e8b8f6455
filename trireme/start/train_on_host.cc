#include "trireme/start/train_on_host.h"

#include "trireme/job/roles.h"
#include "trireme/launch/launch.h"
#include "trireme/start/failed_ranks.h"
#include "trireme/start/in_process.h"
#include "trireme/start/load_data.h"
#include "trireme/start/read_rates.h"
#include "trireme/start/run_end.h"

namespace trireme::start {
namespace {

using runtime::Task;

Task<Result<Json>> run_processes(runtime::Runtime& rt, const HostRun& run, const job::Job& job,
                                 const record::RunFolder& folder) {
  launch::LaunchSpec spec;
  spec.world = job::roles_of(job).world;
  spec.expendable = expendable_ranks(job);
  spec.rendezvous = fmt::format("{}/trireme-{:x}", run.places.temp_dir, rt.unix_time_ns());
  spec.argv = run.rank_command(folder.path);
  spec.grace = job.parallel.deadline_ms * kMilli + kSecond;
  for (int r = 0; r < spec.world; ++r) {
    spec.log_paths.push_back(folder.log_of(r));
    TR_CO_RETURN_IF_ERROR(
        co_await rt.files().remove_all(fmt::format("{}/log/rank-{}.error.json", folder.path, r)));
  }
  TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(spec.rendezvous));
  const std::string rendezvous = spec.rendezvous;
  const std::vector<bool> expendable = spec.expendable;
  const TimeNs grace = spec.grace;
  Result<std::vector<launch::RankExit>> exits = co_await launch::launch_local(rt, std::move(spec));
  (void)co_await rt.files().remove_all(rendezvous);
  if (!exits.ok()) co_return exits.status();
  const std::optional<std::vector<std::string>> lost = lost_ranks(*exits, expendable, grace);
  if (!lost) co_return co_await describe_failure(rt, folder, job::roles_of(job), *exits, grace);
  for (const std::string& line : *lost) run.observer.line(line);
  Result<Bytes> bytes = co_await rt.files().read(folder.file("summary.json"));
  if (!bytes.ok()) co_return bytes.status();
  co_return parse_json(as_text(*bytes), folder.file("summary.json"));
}

// What is left to do on the launcher's thread after its own loop ended: ranks as threads need their own
// loops.
struct Opened {
  job::Job job;
  record::RunFolder folder;
  std::shared_ptr<const data::Dataset> data;
  bool in_process = false;
  std::shared_ptr<const cost::Rates> rates;
  Result<Json> summary = Status(Code::kInternal, "[train] not started");
};

Task<Status> open_and_launch(runtime::Runtime& rt, const HostRun& run, Opened& out) {
  out.job = run.job;
  TR_CO_RETURN_IF_ERROR(job::check_job(out.job));
  const job::Roles roles = job::roles_of(out.job);
  TR_CO_RETURN_IF_ERROR(check_slow(run.slow, roles.world));
  TR_CO_RETURN_IF_ERROR(check_faults(run.faults, roles.world));
  if (out.job.parallel.transport == "mpi" && roles.world > 1)
    co_return error(Code::kInvalid,
                    "[launch] transport 'mpi' needs ranks that MPI started, and this command started none; "
                    "run mpirun -n {} trireme train ...",
                    roles.world);
  const bool in_process = roles.world == 1 || out.job.parallel.transport == "inproc";
  if (!in_process && !run.rank_command)
    co_return error(Code::kInvalid,
                    "[start] {} ranks are processes, and nothing says how to start one: set rank_command, or "
                    "parallel.transport=inproc for threads",
                    roles.world);
  // First: what the job leaves open is picked by the data, and the folder holds the settled job.
  run.observer.doing("reading the data ...", rt.now());
  LoadSpec load;
  load.cache_dir = run.places.cache_dir;
  load.run_dir = run.run_dir;
  Result<LoadedData> data = co_await load_dataset(rt, out.job, std::move(load));
  run.observer.doing("", rt.now());
  if (!data.ok()) co_return data.status();
  const prepare::StoredPlan stored = co_await stored_plan(rt, out.job, run.run_dir);
  TR_CO_RETURN_IF_ERROR(check_cut(out.job, *data->set, stored));
  Result<record::RunFolder> folder =
      co_await record::open_run_folder(rt, out.job, run.run_dir, "runs", this_owner(run.command));
  if (!folder.ok()) co_return folder.status();
  out.folder = std::move(*folder);
  if (out.folder.finished) {
    out.summary = *out.folder.finished;
    co_return Status();
  }
  for (const std::string& note : data->notes) run.observer.note(note);
  out.data = std::move(data->set);
  out.in_process = in_process;
  if (out.in_process) {
    RateSource source;
    source.transport = roles.world > 1 ? "inproc" : "none";
    source.ranks_on_host = roles.world;
    source.slow = run.slow;
    out.rates = co_await read_rates(rt, out.job, std::move(source), run.places);
  } else {
    out.data.reset();  // the ranks read the cache
    out.summary = co_await run_processes(rt, run, out.job, out.folder);
  }
  co_return Status();
}

Task<void> launcher_main(runtime::Runtime& rt, const HostRun& run, Opened& out, Status& status) {
  status = co_await open_and_launch(rt, run, out);
  if (!status.ok()) out.summary = status;
  if (!out.folder.record || (status.ok() && out.in_process)) co_return;
  const job::Roles roles = job::roles_of(out.job);
  co_await note_end(rt, out.folder, out.summary, roles, run.observer);
}

// What a person should see of what a Runtime logs.
std::function<void(std::string_view)> warnings_of(const HostRun& run) {
  return [&run](std::string_view line) {
    if (line.starts_with("warning:")) run.observer.line(line);
  };
}

Result<Json> run_threads(const HostRun& run, const Opened& opened) {
  const std::unique_ptr<record::Progress> progress = run.observer.progress();
  InProcessOptions options;
  options.job = opened.job;
  options.run_dir = opened.folder.path;
  options.data = opened.data;
  options.rates = opened.rates;
  options.progress = progress.get();
  options.handle_interrupt = true;
  for (int r = 0; r < job::roles_of(opened.job).world; ++r) {
    options.faults.push_back(faults_of(run.faults, r));
    options.slow_factors.push_back(slow_factor_of(run.slow, r));
  }
  options.kernel_cache = run.places.kernel_cache;
  options.log_sink = warnings_of(run);
  std::vector<Result<record::Summary>> results = train_in_process(options);
  for (const auto& r : results)
    if (!r.ok()) return r.status();
  return record::to_json(*results[0]);
}

// Ranks as threads have ended.
void note_end_of_threads(const HostRun& run, Opened& opened, const Result<Json>& summary) {
  runtime::RealOptions real;
  real.name = "launcher";
  real.compute_threads = 1;
  const auto rt = runtime::make_real_runtime(real);
  const job::Roles roles = job::roles_of(opened.job);
  rt->run(note_end(*rt, opened.folder, summary, roles, run.observer));
}

}  // namespace

Result<Trained> train_on_host(const HostRun& run) {
  Opened opened;
  Status status;
  {
    runtime::RealOptions real;
    real.name = "launcher";
    real.log_sink = warnings_of(run);
    const auto rt = runtime::make_real_runtime(real);
    rt->run(launcher_main(*rt, run, opened, status));
  }
  TR_RETURN_IF_ERROR(status);
  Result<Json> summary = opened.in_process ? run_threads(run, opened) : std::move(opened.summary);
  if (opened.in_process) note_end_of_threads(run, opened, summary);
  TR_RETURN_IF_ERROR(summary.status());
  return Trained{std::move(*summary), opened.folder.path};
}

}  // namespace trireme::start
