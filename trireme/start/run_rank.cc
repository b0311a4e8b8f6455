#include "trireme/start/run_rank.h"

#include <utility>

#include "trireme/job/roles.h"
#include "trireme/record/run_folder.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/real/cores.h"
#include "trireme/runtime/real/log_file.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/real/this_process.h"
#include "trireme/start/load_data.h"
#include "trireme/start/rank_error.h"
#include "trireme/start/read_rates.h"
#include "trireme/start/run_end.h"
#include "trireme/start/start_note.h"
#include "trireme/train/train_rank.h"

namespace trireme::start {
namespace {

using runtime::Task;

// Lines wait until the run folder is known.
struct LateLog {
  std::vector<std::string> early;
  std::function<void(std::string_view)> sink;

  void line(std::string_view text) {
    if (sink)
      sink(text);
    else
      early.emplace_back(text);
  }
  Status open(const std::string& run_dir, int rank) {
    TR_ASSIGN_OR_RETURN(sink, runtime::make_log_file(fmt::format("{}/log/rank-{}.log", run_dir, rank)));
    for (const std::string& text : std::exchange(early, {})) sink(text);
    return {};
  }
};

struct RankRun {
  const RankStart& start;
  const launch::RankIdentity& id;
  std::shared_ptr<LateLog> log;
  bool is_prepared() const { return !start.prepared_dir.empty(); }
  std::string run_dir = {};          // empty: not known yet
  record::RunFolder folder = {};     // rank 0, when no launcher of ours has opened it
  std::optional<Json> summary = {};  // rank 0: what to report
  bool makes_rendezvous = false;     // the directory is of this job alone; rank 0 removes it
  bool finished_before = false;      // nothing was to be done
  int host_cores = 1;                // of all ranks of this host
  job::Roles roles = {};             // once the job is read
};

Task<Status> write_error(runtime::Runtime& rt, const RankRun& run, Status failure) {
  const int rank = run.id.rank;
  const std::string text = rank_error(rank, failure, run.roles).dump(2) + "\n";
  co_return co_await rt.files().write_atomic(fmt::format("{}/log/rank-{}.error.json", run.run_dir, rank),
                                             as_bytes(text));
}

Task<Result<job::Job>> rank_job(runtime::Runtime& rt, const RankRun& run) {
  const RankStart& start = run.start;
  if (run.is_prepared()) {
    const std::string path = start.prepared_dir + "/job.toml";
    Result<Bytes> bytes = co_await rt.files().read(path);
    if (!bytes.ok()) co_return bytes.status();
    co_return job::parse_job(as_text(*bytes), path);
  }
  Result<job::Job> job = co_await start.read_job(rt);
  if (!job.ok()) co_return job;
  TR_CO_RETURN_IF_ERROR(job::fit_workers(*job, run.id.world, start.workers, run.id.launcher));
  TR_CO_RETURN_IF_ERROR(job::check_job(*job));
  TR_CO_RETURN_IF_ERROR(check_slow(start.slow, run.id.world));
  TR_CO_RETURN_IF_ERROR(check_faults(start.faults, run.id.world));
  co_return job;
}

// Rank 0: the run folder, or what speaks against it, as a note for the others.
Task<StartNote> open_folder(runtime::Runtime& rt, RankRun& run, const job::Job& job) {
  StartNote note;
  Result<record::RunFolder> folder =
      co_await record::open_run_folder(rt, job, run.start.run_dir, "runs", this_owner(run.start.command));
  note.failure = folder.status();
  if (!folder.ok()) co_return note;
  note.run_dir = folder->path;
  note.finished = folder->finished.has_value();
  run.summary = folder->finished;
  for (int r = 0; r < run.id.world; ++r)
    (void)co_await rt.files().remove_all(fmt::format("{}/log/rank-{}.error.json", folder->path, r));
  run.folder = std::move(*folder);
  co_return note;
}

net::ConnectOptions connect_options(const RankRun& run, const job::Job& job, std::string_view transport) {
  const launch::RankIdentity& id = run.id;
  net::ConnectOptions connect;
  connect.rank = id.rank;
  connect.world = id.world;
  connect.job = job.name;
  connect.insecure = run.start.insecure;
  // On one host a directory will do, and nobody listens beyond it, unless the user names an address.
  const bool by_address =
      transport == "tcp" && (id.coordinator_given || !id.one_host || id.rendezvous.empty());
  if (by_address)
    connect.coordinator = id.coordinator;
  else if (transport == "tcp" || transport == "shm")
    connect.rendezvous = id.rendezvous;
  return connect;
}

// run.json of a job of several hosts names all of them.
Task<Status> note_hosts(runtime::Runtime& rt, RankRun& run, net::Transport& transport) {
  Result<std::vector<std::string>> hosts = co_await gather_hosts(rt, transport, runtime::host_name());
  if (!hosts.ok()) co_return hosts.status();
  if (hosts->size() < 2 || !run.folder.record) co_return Status();
  run.folder.record->hosts = std::move(*hosts);
  co_return co_await record::write_run_record(rt, run.folder.path, *run.folder.record);
}

// Connects, and agrees with the others on the run folder. Null: there is nothing to do.
Task<Result<std::unique_ptr<net::Transport>>> meet(runtime::Runtime& rt, RankRun& run, const job::Job& job,
                                                   std::string transport, net::ConnectOptions connect) {
  StartNote note;
  if (run.id.rank == 0) note = co_await open_folder(rt, run, job);
  if (run.makes_rendezvous) TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(run.id.rendezvous));
  auto connected = co_await net::connect_transport(rt, std::move(transport), std::move(connect));
  if (!connected.ok()) {
    if (!note.failure.ok()) co_return note.failure;
    co_return connected.status();
  }
  const Status shared = co_await share_start_note(rt, **connected, note);
  if (!shared.ok()) co_return shared;
  if (!note.failure.ok()) co_return note.failure;
  run.run_dir = note.run_dir;
  run.finished_before = note.finished;
  if (note.finished) co_return std::unique_ptr<net::Transport>();
  TR_CO_RETURN_IF_ERROR(co_await note_hosts(rt, run, **connected));
  TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(run.run_dir + "/log"));  // another host may not have it
  TR_CO_RETURN_IF_ERROR(run.log->open(run.run_dir, run.id.rank));
  co_return connected;
}

Task<Status> run_rank(runtime::Runtime& rt, RankRun& run) {
  train::RankContext context;
  train::stop_on_interrupt(rt, context.stop);
  Result<job::Job> job = co_await rank_job(rt, run);
  if (!job.ok()) co_return job.status();
  run.roles = job::roles_of(*job);
  LoadSpec load;
  load.cache_dir = run.start.places.cache_dir;
  load.settled = run.is_prepared();
  Result<LoadedData> data = co_await load_dataset(rt, *job, std::move(load));
  if (!data.ok()) co_return data.status();
  if (!run.is_prepared()) {
    const prepare::StoredPlan stored = co_await stored_plan(rt, *job, run.start.run_dir);
    TR_CO_RETURN_IF_ERROR(check_cut(*job, *data->set, stored));
  }
  const RunObserver& observer = run.start.observer;
  if (!run.is_prepared() && run.id.rank == 0)
    for (const std::string& note : data->notes) observer.note(note);
  TR_CO_ASSIGN_OR_RETURN(context.transport, launch::choose_transport(run.id, job->parallel.transport));
  TR_CO_RETURN_IF_ERROR(job::check_transport(*job, context.transport));
  context.connect = connect_options(run, *job, context.transport);
  run.makes_rendezvous = !run.id.rendezvous_given && !context.connect.rendezvous.empty();
  if (!run.is_prepared()) {
    auto connected = co_await meet(rt, run, *job, context.transport, context.connect);
    if (!connected.ok()) co_return connected.status();
    if (run.finished_before) co_return Status();
    context.connected = std::move(*connected);
  }
  std::unique_ptr<record::Progress> progress;
  if (run.id.rank == 0) progress = observer.progress();
  context.rt = &rt;
  context.job = *job;
  context.owns_process = true;
  context.run_dir = run.run_dir;
  context.local_rank = run.id.local_rank;
  context.may_spin = run.id.local_world <= run.host_cores;
  context.data = data->set;
  context.machine.cores = rt.compute_threads();
  // Another host may lack the fastest kernels of this one: a plan for several names the usual ones.
  if (run.id.one_host) context.kernel_cache = run.start.places.kernel_cache;
  RateSource source;
  source.transport = run.id.world > 1 ? context.transport : "none";
  source.ranks_on_host = run.id.local_world;
  source.cores_on_host = run.host_cores;
  source.one_host = run.id.one_host;
  source.slow = run.start.slow;
  context.rates = co_await read_rates(rt, *job, std::move(source), run.start.places);
  if (!job->parallel.link.empty()) context.link = context.rates->comm.link;
  context.progress = progress.get();
  Result<record::Summary> summary = co_await train::train_rank(std::move(context));
  if (!summary.ok()) co_return summary.status();
  run.summary = record::to_json(*summary);
  co_return Status();
}

// A function of its own: GCC 12 makes both sides of a conditional inside a coroutine.
Result<Json> outcome_of(const Status& failure, const RankRun& run) {
  if (!failure.ok()) return failure;
  return *run.summary;
}

// Interrupts keep their handler until the error is written: mpirun ends the others as soon as one has ended.
Task<void> rank_main(runtime::Runtime& rt, RankRun& run, Status& failure) {
  failure = co_await run_rank(rt, run);
  if (run.folder.record) {
    const Result<Json> outcome = outcome_of(failure, run);
    co_await note_end(rt, run.folder, outcome, run.roles, run.start.observer);
  }
  if (!failure.ok()) {
    rt.log(fmt::format("failed: {}", failure.message()));
    bool written = false;
    if (!run.run_dir.empty()) written = (co_await write_error(rt, run, failure)).ok();
    // mpirun ends all ranks as soon as one has ended: the others get time to write what they know.
    constexpr TimeNs kOthersTime = 500 * kMilli;
    if (!run.is_prepared() && run.id.world > 1) co_await rt.sleep_for(kOthersTime);
    // Our own launcher reads the file; under any other the terminal is all there is.
    if (!run.is_prepared() || !written) run.start.observer.failed(failure);
  }
  if (run.makes_rendezvous && run.id.rank == 0) (void)co_await rt.files().remove_all(run.id.rendezvous);
  rt.on_interrupt(nullptr);
}

}  // namespace

RankEnd run_rank(const RankStart& start) {
  const launch::RankIdentity& id = start.id;
  RankRun run{start, id, std::make_shared<LateLog>()};
  run.host_cores = id.host_cores > 0 ? id.host_cores : runtime::launcher_cores();
  run.run_dir = start.prepared_dir;
  RankEnd end;
  if (run.is_prepared()) end.failure = run.log->open(run.run_dir, id.rank);
  if (!end.failure.ok()) {
    start.observer.failed(end.failure);
    return end;
  }
  runtime::RealOptions options;
  options.name = fmt::format("rank {}", id.rank);
  options.compute_threads = runtime::threads_of_rank(runtime::num_cores(), run.host_cores, id.local_world);
  if (id.local_world > run.host_cores) options.spin_ns = 0;
  options.faults = faults_of(start.faults, id.rank);
  options.slow_factor = slow_factor_of(start.slow, id.rank);
  options.log_sink = [log = run.log](std::string_view line) { log->line(line); };
  const auto rt = runtime::make_real_runtime(options);
  rt->run(rank_main(*rt, run, end.failure));
  end.run_dir = run.run_dir;
  if (!end.failure.ok()) return end;
  end.finished = run.finished_before || run.summary->value("finished", false);
  end.summary = std::move(run.summary);
  return end;
}

}  // namespace trireme::start
