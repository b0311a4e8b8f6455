// `trireme train`: the command, and the launcher's side of it (job, run folder, ranks, final line).
#include <algorithm>
#include <cstdio>

#include "trireme/cli/commands.h"
#include "trireme/cli/load_data.h"
#include "trireme/cli/progress_bar.h"
#include "trireme/cli/train_args.h"
#include "trireme/launch/launch.h"
#include "trireme/train/in_process.h"
#include "trireme/train/run_folder.h"

namespace trireme::cli {
namespace {

using runtime::Task;

// The summary as people like it.
std::string final_line(const Json& s, const std::string& run_dir) {
  if (!s.value("finished", false))
    return fmt::format(
        "Stopped after step {}; nothing is lost: the same command goes on from there. Results: {}",
        s.value("steps", 0), run_dir);
  const std::string task = s.value("task", "classify");
  const double loss = s.value("test_loss", 0.0), accuracy = 100 * s.value("test_accuracy", 0.0);
  std::string result = fmt::format("{:.2f} % of the test samples right", accuracy);
  if (task == "language")
    result = fmt::format("Test loss {:.4f} nats per token ({:.2f} % right)", loss, accuracy);
  if (task == "reconstruct") result = fmt::format("Test loss {:.4f} per sample", loss);
  return fmt::format("{} after {} steps in {} ({} samples/s). Results: {}", result, s.value("steps", 0),
                     format_duration(from_seconds(s.value("wall_seconds", 0.0))),
                     format_count(s.value("samples_per_second", 0.0)), run_dir);
}

// What each rank said or how it ended; ranks that say the same share a line.
Task<Status> describe_failure(runtime::Runtime& rt, const train::RunFolder& folder,
                              const std::vector<launch::RankExit>& exits) {
  Code code = Code::kPeerLost;
  std::vector<std::pair<std::string, std::string>> lines;  // what, which ranks
  for (std::size_t r = 0; r < exits.size(); ++r) {
    const launch::RankExit& e = exits[r];
    std::string what;
    Result<Bytes> bytes = co_await rt.files().read(fmt::format("{}/log/rank-{}.error.json", folder.path, r));
    if (bytes.ok()) {
      const Result<Json> json = parse_json(as_text(*bytes), "error");
      what = json.ok() ? json->value("message", "") : "unreadable error file";
      if (json.ok() && json->value("code", "") == code_name(Code::kInvalid)) code = Code::kInvalid;
    } else if (e.killed_by_launcher) {
      what = "did not answer and was ended";
    } else if (e.status.signal != 0) {
      what = fmt::format("died by signal {}", e.status.signal);
    } else if (e.status.code != 0) {
      what = fmt::format("ended with code {}; see {}", e.status.code, folder.log_of(static_cast<int>(r)));
    } else {
      continue;
    }
    const auto same =
        std::find_if(lines.begin(), lines.end(), [&](const auto& l) { return l.first == what; });
    if (same == lines.end()) {
      lines.emplace_back(std::move(what), fmt::format("rank {}", r));
    } else {
      same->second += fmt::format(", {}", r);
    }
  }
  std::string text = "[launch] the job failed:";
  for (const auto& [what, ranks] : lines) text += fmt::format("\n  {}: {}", ranks, what);
  text += fmt::format("\nthe same command goes on from the last checkpoint; logs: {}/log", folder.path);
  co_return Status(code, text);
}

Task<Result<Json>> run_processes(runtime::Runtime& rt, const TrainArgs& args, const train::Job& job,
                                 const train::RunFolder& folder) {
  launch::LaunchSpec spec;
  spec.world = static_cast<int>(job.parallel.workers);
  spec.rendezvous = fmt::format("{}/trireme-{:x}", temp_dir(), rt.unix_time_ns());
  spec.argv = {"", "train", "--prepared", "--run-dir", folder.path};
  if (args.insecure) spec.argv.emplace_back("--insecure");
  if (args.quiet) spec.argv.emplace_back("--quiet");
  for (const std::string& fault : args.fault_texts) spec.argv.insert(spec.argv.end(), {"--fault", fault});
  spec.grace = job.parallel.deadline_ms * kMilli + kSecond;
  for (int r = 0; r < spec.world; ++r) {
    spec.log_paths.push_back(folder.log_of(r));
    TR_CO_RETURN_IF_ERROR(
        co_await rt.files().remove_all(fmt::format("{}/log/rank-{}.error.json", folder.path, r)));
  }
  TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(spec.rendezvous));
  const std::string rendezvous = spec.rendezvous;
  Result<std::vector<launch::RankExit>> exits = co_await launch::launch_local(rt, std::move(spec));
  (void)co_await rt.files().remove_all(rendezvous);
  if (!exits.ok()) co_return exits.status();
  for (const launch::RankExit& e : *exits)
    if (!e.status.ok()) co_return co_await describe_failure(rt, folder, *exits);
  Result<Bytes> bytes = co_await rt.files().read(folder.file("summary.json"));
  if (!bytes.ok()) co_return bytes.status();
  co_return parse_json(as_text(*bytes), folder.file("summary.json"));
}

// What is left to do on the launcher's thread after its own loop ended: ranks as threads need their own
// loops.
struct Prepared {
  train::Job job;
  train::RunFolder folder;
  std::shared_ptr<const data::Dataset> data;
  bool in_process = false;
  Result<Json> summary = Status(Code::kInternal, "[train] not started");
};

Task<Status> prepare_launch(runtime::Runtime& rt, const TrainArgs& args, Prepared& out) {
  TR_CO_ASSIGN_OR_RETURN(out.job, co_await load_job(rt, args.job));
  if (args.workers > 0) out.job.parallel.workers = args.workers;
  if (!args.transport.empty()) out.job.parallel.transport = args.transport;
  TR_CO_RETURN_IF_ERROR(train::check_job(out.job));
  if (out.job.parallel.transport == "mpi" && out.job.parallel.workers > 1)
    co_return error(Code::kInvalid,
                    "[launch] transport 'mpi' needs ranks that MPI started, and this command started none; "
                    "run mpirun -n {} "
                    "trireme train ...",
                    out.job.parallel.workers);
  Result<train::RunFolder> folder = co_await train::open_run_folder(rt, out.job, args.run_dir, "runs");
  if (!folder.ok()) co_return folder.status();
  out.folder = std::move(*folder);
  if (out.folder.finished) {
    out.summary = *out.folder.finished;
    co_return Status();
  }
  auto data = co_await load_dataset(rt, out.job);
  if (!data.ok()) co_return data.status();
  out.data = std::move(*data);
  out.in_process = out.job.parallel.workers == 1 || out.job.parallel.transport == "inproc";
  if (!out.in_process) {
    out.data.reset();  // the ranks read the cache
    out.summary = co_await run_processes(rt, args, out.job, out.folder);
  }
  co_return Status();
}

Task<void> launcher_main(runtime::Runtime& rt, const TrainArgs& args, Prepared& out, Status& status) {
  status = co_await prepare_launch(rt, args, out);
}

Result<Json> run_threads(const TrainArgs& args, const Prepared& prepared) {
  const auto progress = make_progress_bar(stderr_is_terminal());
  train::InProcessOptions options;
  options.job = prepared.job;
  options.run_dir = prepared.folder.path;
  options.data = prepared.data;
  options.progress = args.quiet ? nullptr : progress.get();
  options.handle_interrupt = true;
  for (int r = 0; r < prepared.job.parallel.workers; ++r)
    options.faults.push_back(real_faults(args.faults, r));
  std::vector<Result<train::Summary>> results = train::train_in_process(options);
  for (const auto& r : results)
    if (!r.ok()) return r.status();
  return train::to_json(*results[0]);
}

int run_as_launcher(const TrainArgs& args) {
  Prepared prepared;
  Status status;
  {
    runtime::RealOptions real;
    real.name = "launcher";
    const auto rt = runtime::make_real_runtime(real);
    rt->run(launcher_main(*rt, args, prepared, status));
  }
  if (!status.ok()) return print_error(status);
  Result<Json> summary = prepared.in_process ? run_threads(args, prepared) : std::move(prepared.summary);
  if (!summary.ok()) return print_error(summary.status());
  return report(args, *summary, prepared.folder.path);
}

int run_train(TrainArgs& args) {
  for (const std::string& text : args.fault_texts) {
    Result<FaultOption> fault = parse_fault(text);
    if (!fault.ok()) return print_error(fault.status());
    args.faults.push_back(std::move(*fault));
  }
  auto id = launch::rank_from_environment(environment);
  if (!id.ok()) return print_error(id.status());
  if (!id->has_value()) return run_as_launcher(args);
  if (!args.coordinator.empty()) {
    (*id)->coordinator = args.coordinator;
    (*id)->coordinator_given = true;
  }
  return run_as_rank(args, **id);
}

}  // namespace

int report(const TrainArgs& args, const Json& summary, const std::string& run_dir) {
  std::fputs((final_line(summary, run_dir) + "\n").c_str(), args.json ? stderr : stdout);
  if (args.json) std::fputs((summary.dump(2) + "\n").c_str(), stdout);
  return summary.value("finished", false) ? kExitOk : kExitStopped;
}

std::function<int()> add_train(CLI::App& app) {
  auto args = std::make_shared<TrainArgs>();
  add_job_options(app, args->job);
  app.add_option("--run-dir", args->run_dir,
                 "Folder of this run (default: runs/<name>-<n>); an unfinished run there goes on");
  app.add_option("--workers", args->workers, "Number of workers on this host (overrides parallel.workers)")
      ->check(CLI::Range(1, 65536));
  app.add_option("--transport", args->transport,
                 "How ranks exchange: auto, shm, tcp, mpi, inproc (overrides parallel.transport)");
  app.add_option("--coordinator", args->coordinator,
                 "HOST:PORT where rank 0 listens, when mpirun or srun spread the ranks over hosts");
  app.add_flag("--insecure", args->insecure,
               "Listen beyond this host although connections are not encrypted");
  app.add_flag("--prepared", args->prepared)->group("");  // of our own launcher
  app.add_flag("--json", args->json,
               "Print summary.json last on standard output, everything else on standard error");
  app.add_flag("--quiet", args->quiet, "No progress");
  app.add_option("--fault", args->fault_texts,
                 "Inject a fault: RANK:KIND@SITE:INDEX, e.g. 1:kill@collective:7");
  app.footer(
      "Without a job file it learns the built-in digits. The same command again goes on where it stopped.\n"
      "Under mpirun, srun or torchrun the same command is one rank of the job.\n"
      "Ctrl-C: once to save and stop, twice to stop now. Keys for --set: trireme inspect job");
  return [args] { return run_train(*args); };
}

}  // namespace trireme::cli
