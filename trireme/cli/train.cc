// `trireme train`: the command, and the launcher's side of it (job, run folder, ranks, final line).
#include <algorithm>
#include <cstdio>

#include "trireme/agree/agree.h"
#include "trireme/cli/calibration_file.h"
#include "trireme/cli/command.h"
#include "trireme/cli/final_line.h"
#include "trireme/cli/final_table.h"
#include "trireme/cli/last_lines.h"
#include "trireme/cli/load_data.h"
#include "trireme/cli/number_checks.h"
#include "trireme/cli/progress_bar.h"
#include "trireme/cli/read_rates.h"
#include "trireme/cli/run_end.h"
#include "trireme/cli/train_args.h"
#include "trireme/job/roles.h"
#include "trireme/launch/launch.h"
#include "trireme/record/run_folder.h"
#include "trireme/runtime/real/this_process.h"
#include "trireme/start/in_process.h"

namespace trireme::cli {
namespace {

using runtime::Task;

// "rank 1" of the first that failed by itself, for those that had to be killed; empty: none did.
std::string first_failed(const std::vector<launch::RankExit>& exits) {
  for (std::size_t r = 0; r < exits.size(); ++r)
    if (!exits[r].status.ok() && !exits[r].killed_by_launcher) return fmt::format("rank {}", r);
  return "";
}

std::string how_killed(const std::string& culprit, TimeNs grace) {
  return fmt::format("still running {:.0f} s after {}; killed by the launcher", to_seconds(grace),
                     culprit.empty() ? "the job ended" : culprit + " failed");
}

// What a rank that could write no error file said last: out of memory, or of descriptors.
Task<std::string> last_error(runtime::Runtime& rt, std::string log) {
  constexpr std::string_view kMark = "\nerror: ";
  const Result<Bytes> bytes = co_await rt.files().read(std::move(log));
  if (!bytes.ok()) co_return "";
  const std::string text = "\n" + std::string(as_text(*bytes));
  const std::size_t at = text.rfind(kMark);
  if (at == std::string::npos) co_return "";
  const std::string said = text.substr(at + kMark.size());
  co_return said.substr(0, said.find('\n'));
}

// The first error file that knows a culprit decides; a rank that failed by itself is its own.
void take_context(const Json& json, int rank, ErrorContext& context) {
  if (context.peer && !context.operation.empty()) return;
  const int culprit = json.value("culprit", -1);
  context.peer = culprit >= 0 ? culprit : rank;
  context.operation = json.value("operation", "");
  context.reason = json.value("reason", "");
  if (context.reason.empty()) context.reason = json.value("message", "");
}

// Whether the run stopped early, and where another model than the last was better.
std::string best_line(const Json& s, const std::string& run_dir) {
  const bool early = s.value("stopped_early", false);
  std::string text = early ? "Stopped early (train.patience): the last evaluations were no better.\n" : "";
  const auto best = s.find("best");
  if (best == s.end() || !best->is_object()) return text;
  const bool classifies = s.value("task", "classify") == "classify";
  const std::string part = best->value("part", "test"), what = classifies ? "accuracy" : "loss";
  const double value = best->value(what, 0.0), last = s.value(part + "_" + what, value);
  if (best->value("step", 0) == s.value("steps", 0) || (value == last && !early)) return text;
  const std::string shown =
      classifies ? fmt::format("accuracy {:.2f} %", 100 * value) : fmt::format("loss {:.4f}", value);
  return text + fmt::format("Best {} {} after step {}: trireme eval {} --best\n", part, shown,
                            best->value("step", 0), run_dir);
}

// What each rank said or how it ended; ranks that say the same share a line.
Task<Status> describe_failure(runtime::Runtime& rt, const record::RunFolder& folder, const job::Roles& roles,
                              const std::vector<launch::RankExit>& exits, TimeNs grace) {
  Code code = Code::kPeerLost;
  ErrorContext first;                                      // that names a culprit
  std::vector<std::pair<std::string, std::string>> lines;  // what, which ranks
  for (std::size_t r = 0; r < exits.size(); ++r) {
    const launch::RankExit& e = exits[r];
    std::string what;
    Result<Bytes> bytes = co_await rt.files().read(fmt::format("{}/log/rank-{}.error.json", folder.path, r));
    if (bytes.ok()) {
      const Result<Json> json = parse_json(as_text(*bytes), "error");
      what = json.ok() ? json->value("message", "") : "unreadable error file";
      if (json.ok() && json->value("code", "") == code_name(Code::kInvalid)) code = Code::kInvalid;
      if (json.ok()) take_context(*json, static_cast<int>(r), first);
    } else if (e.killed_by_launcher) {
      what = how_killed(first_failed(exits), grace);
    } else if (e.status.signal != 0) {
      what = fmt::format("died by signal {}", e.status.signal);
      if (!first.peer) first.peer = static_cast<int>(r), first.reason = what;
    } else if (e.status.code != 0) {
      what = co_await last_error(rt, folder.log_of(static_cast<int>(r)));
      if (what.empty())
        what = fmt::format("ended with code {}; see {}", e.status.code,
                           r == 0 ? "its message above" : folder.log_of(static_cast<int>(r)));
    } else {
      continue;
    }
    const auto same =
        std::find_if(lines.begin(), lines.end(), [&](const auto& l) { return l.first == what; });
    if (same == lines.end()) {
      lines.emplace_back(std::move(what), roles.name_of(static_cast<int>(r)));
    } else {
      same->second += fmt::format(", {}", r);
    }
  }
  std::string text = "[launch] the job failed:";
  for (const auto& [what, ranks] : lines) text += fmt::format("\n  {}: {}", ranks, what);
  // What is wrong with the command stays wrong.
  const char* again = code == Code::kInvalid ? "" : "the same command resumes from the last checkpoint; ";
  text += fmt::format("\n{}logs: {}/log", again, folder.path);
  co_return Status(code, text, first);
}

// Those that were lost while the job went on; empty: somebody failed whom the job cannot spare.
std::optional<std::string> tell_lost(const std::vector<launch::RankExit>& exits,
                                     const std::vector<bool>& expendable, TimeNs grace) {
  std::string text;
  for (std::size_t r = 0; r < exits.size(); ++r) {
    const launch::RankExit& e = exits[r];
    if (e.status.ok()) continue;
    if (!exits[0].status.ok() || r >= expendable.size() || !expendable[r]) return std::nullopt;
    text += fmt::format("worker {} {}; the others continued without it\n", r,
                        e.killed_by_launcher   ? how_killed("", grace)
                        : e.status.signal != 0 ? fmt::format("died by signal {}", e.status.signal)
                                               : fmt::format("ended with code {}", e.status.code));
  }
  return text;
}

Task<Result<Json>> run_processes(runtime::Runtime& rt, const TrainArgs& args, const job::Job& job,
                                 const record::RunFolder& folder) {
  launch::LaunchSpec spec;
  spec.world = job::roles_of(job).world;
  spec.expendable = expendable_ranks(job);
  spec.rendezvous = fmt::format("{}/trireme-{:x}", temp_dir(), rt.unix_time_ns());
  spec.argv = {"", "train", "--prepared", "--run-dir", folder.path};
  for (const std::string& word : passed_on(args)) spec.argv.push_back(word);
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
  const std::optional<std::string> lost = tell_lost(*exits, expendable, grace);
  if (!lost) co_return co_await describe_failure(rt, folder, job::roles_of(job), *exits, grace);
  std::fputs(lost->c_str(), stderr);
  Result<Bytes> bytes = co_await rt.files().read(folder.file("summary.json"));
  if (!bytes.ok()) co_return bytes.status();
  co_return parse_json(as_text(*bytes), folder.file("summary.json"));
}

// What is left to do on the launcher's thread after its own loop ended: ranks as threads need their own
// loops.
struct Prepared {
  job::Job job;
  record::RunFolder folder;
  std::shared_ptr<const data::Dataset> data;
  bool in_process = false;
  std::shared_ptr<const cost::Rates> rates;
  std::optional<int> code;  // the ranks were on other hosts, and rank 0 has reported
  Result<Json> summary = Status(Code::kInternal, "[train] not started");
};

Task<Status> prepare_launch(runtime::Runtime& rt, const TrainArgs& args, Prepared& out) {
  TR_CO_ASSIGN_OR_RETURN(out.job, co_await load_job(rt, args.job));
  if (args.workers > 0) out.job.parallel.workers = args.workers;
  apply_options(args, out.job);
  if (!args.hosts.empty()) {
    TR_CO_ASSIGN_OR_RETURN(out.code, co_await run_on_hosts(rt, args, out.job));
    co_return Status();
  }
  TR_CO_RETURN_IF_ERROR(job::check_job(out.job));
  const job::Roles roles = job::roles_of(out.job);
  TR_CO_RETURN_IF_ERROR(check_slow(args.slow, roles.world));
  TR_CO_RETURN_IF_ERROR(check_faults(args.faults, roles.world));
  if (out.job.parallel.transport == "mpi" && roles.world > 1)
    co_return error(Code::kInvalid,
                    "[launch] transport 'mpi' needs ranks that MPI started, and this command started none; "
                    "run mpirun -n {} trireme train ...",
                    roles.world);
  // First: what the job leaves open is picked by the data, and the folder holds the settled job.
  StatusLine line(stderr_terminal(), [&rt] { return rt.now(); });
  if (!args.quiet) line.show("reading the data ...");
  Result<LoadedData> data = co_await load_dataset(rt, out.job, /*settled=*/false, args.run_dir);
  line.clear();
  if (!data.ok()) co_return data.status();
  Result<record::RunFolder> folder =
      co_await record::open_run_folder(rt, out.job, args.run_dir, "runs", this_owner(args.command));
  if (!folder.ok()) co_return folder.status();
  out.folder = std::move(*folder);
  if (out.folder.finished) {
    out.summary = *out.folder.finished;
    co_return Status();
  }
  if (!args.quiet) print_notes(*data);
  out.data = std::move(data->set);
  out.in_process = roles.world == 1 || out.job.parallel.transport == "inproc";
  if (out.in_process) {
    RateSource source;
    source.transport = roles.world > 1 ? "inproc" : "none";
    source.ranks_on_host = roles.world;
    source.slow = args.slow;
    out.rates = co_await read_rates(rt, out.job, std::move(source));
  } else {
    out.data.reset();  // the ranks read the cache
    out.summary = co_await run_processes(rt, args, out.job, out.folder);
  }
  co_return Status();
}

Task<void> launcher_main(runtime::Runtime& rt, const TrainArgs& args, Prepared& out, Status& status) {
  status = co_await prepare_launch(rt, args, out);
  if (!status.ok()) {
    co_await note_end(rt, out.folder, status);
  } else if (!out.in_process) {
    co_await note_end(rt, out.folder, out.summary);
  }
}

void show_warnings(std::string_view line) {
  if (line.starts_with("warning:")) std::fputs(fmt::format("{}\n", line).c_str(), stderr);
}

Result<Json> run_threads(const TrainArgs& args, const Prepared& prepared) {
  const auto progress = args.quiet ? nullptr : make_progress_bar(stderr_terminal(), args.verbose);
  start::InProcessOptions options;
  options.job = prepared.job;
  options.run_dir = prepared.folder.path;
  options.data = prepared.data;
  options.rates = prepared.rates;
  options.progress = progress.get();
  options.handle_interrupt = true;
  for (int r = 0; r < job::roles_of(prepared.job).world; ++r) {
    options.faults.push_back(real_faults(args.faults, r));
    options.slow_factors.push_back(slow_factor_of(args.slow, r));
  }
  options.kernel_cache = kernel_cache_path();
  options.log_sink = show_warnings;
  std::vector<Result<record::Summary>> results = start::train_in_process(options);
  for (const auto& r : results)
    if (!r.ok()) return r.status();
  return record::to_json(*results[0]);
}

// Ranks as threads have ended.
void note_end_of_threads(Prepared& prepared, const Result<Json>& summary) {
  runtime::RealOptions real;
  real.name = "launcher";
  real.compute_threads = 1;
  const auto rt = runtime::make_real_runtime(real);
  rt->run(note_end(*rt, prepared.folder, summary));
}

int run_as_launcher(const TrainArgs& args) {
  Prepared prepared;
  Status status;
  {
    runtime::RealOptions real;
    real.name = "launcher";
    real.log_sink = show_warnings;
    const auto rt = runtime::make_real_runtime(real);
    rt->run(launcher_main(*rt, args, prepared, status));
  }
  if (!status.ok()) return print_error(status);
  if (prepared.code) return *prepared.code;
  Result<Json> summary = prepared.in_process ? run_threads(args, prepared) : std::move(prepared.summary);
  if (prepared.in_process) note_end_of_threads(prepared, summary);
  if (!summary.ok()) return print_error(summary.status());
  return report(args, *summary, prepared.folder.path);
}

constexpr const char *kWorkers = "Workers", *kHosts = "Several hosts", *kOutput = "Output",
                     *kTesting = "Testing";

void add_worker_options(Options& app, TrainArgs& args) {
  app.add_option("--workers", args.workers, "Number of workers (overrides parallel.workers)")
      ->check(integer_in(1, 65536))
      ->group(kWorkers);
  app.add_option("--servers", args.servers,
                 "Number of parameter servers, each in its own process (overrides parallel.servers)")
      ->check(integer_in(0, 65536))
      ->group(kWorkers);
  app.add_option("--device", args.device, "Device: cpu, cuda, auto (overrides train.device)")
      ->group(kWorkers);
  app.add_option("--transport", args.transport,
                 "Transport between ranks: auto, shm, tcp, mpi, inproc (overrides parallel.transport)")
      ->group(kWorkers);
}

void add_host_options(Options& app, TrainArgs& args) {
  app.add_option("--hosts", args.hosts,
                 "Start the ranks on the hosts of this file over ssh; its lines are NAME [slots=N]")
      ->type_name("FILE")
      ->group(kHosts);
  app.add_option("--ssh", args.ssh, "With --hosts: remote shell command")->show_default()->group(kHosts);
  app.add_option("--remote-binary", args.remote_binary,
                 "With --hosts: path of trireme on those hosts. Default: the path of this binary")
      ->group(kHosts);
  app.add_option("--coordinator", args.coordinator,
                 "HOST:PORT where rank 0 listens, when mpirun or srun start ranks on several hosts")
      ->group(kHosts);
  app.add_flag("--insecure", args.insecure, "Listen beyond this host although connections are not encrypted")
      ->group(kHosts);
}

// Workers that this command starts meet in a directory.
Status check_no_coordinator(const TrainArgs& args) {
  if (args.coordinator.empty() || !args.hosts.empty()) return {};
  return error(Code::kInvalid,
               "[launch] --coordinator {} would not be used: this command starts its workers itself, on this "
               "host; it is for ranks of mpirun, srun or torchrun, and for --hosts",
               args.coordinator);
}

int run_train(TrainArgs& args) {
  runtime::outlive_readers();
  for (const std::string& text : args.fault_texts) {
    Result<FaultOption> fault = parse_fault(text);
    if (!fault.ok()) return print_error(fault.status());
    args.faults.push_back(std::move(*fault));
  }
  Result<std::vector<SlowOption>> slow = parse_slow(args.slow_texts);
  if (!slow.ok()) return print_error(slow.status());
  args.slow = std::move(*slow);
  auto id = launch::rank_from_environment(environment);
  if (!id.ok()) return print_error(id.status());
  if (!id->has_value()) {
    const Status used = check_no_coordinator(args);
    return used.ok() ? run_as_launcher(args) : print_error(used);
  }
  if (!args.hosts.empty())
    return print_error(
        error(Code::kInvalid,
              "[launch] {} has started this rank, and --hosts would start more; use one of the "
              "two",
              (*id)->launcher));
  if (!args.coordinator.empty()) {
    (*id)->coordinator = args.coordinator;
    (*id)->coordinator_given = true;
  }
  return run_as_rank(args, **id);
}

}  // namespace

void apply_options(const TrainArgs& args, job::Job& job) {
  if (args.servers >= 0) job.parallel.servers = args.servers;
  if (!args.transport.empty()) job.parallel.transport = args.transport;
  if (!args.device.empty()) job.train.device = args.device;
}

std::vector<std::string> passed_on(const TrainArgs& args) {
  std::vector<std::string> words;
  if (args.insecure) words.emplace_back("--insecure");
  if (args.quiet) words.emplace_back("--quiet");
  if (args.verbose) words.emplace_back("--verbose");
  for (const std::string& fault : args.fault_texts) words.insert(words.end(), {"--fault", fault});
  for (const std::string& slow : args.slow_texts) words.insert(words.end(), {"--slow", slow});
  return words;
}

std::vector<bool> expendable_ranks(const job::Job& job) {
  const auto row = agree::find_agreement(job.parallel.agreement);
  if (!row.ok()) return {};
  if ((*row)->pace != agree::Pace::kFree && (*row)->pace != agree::Pace::kBound) return {};
  const job::Roles roles = job::roles_of(job);
  std::vector<bool> expendable(static_cast<std::size_t>(roles.world), false);
  for (int r = 1; r < roles.workers; ++r)
    expendable[static_cast<std::size_t>(r)] = roles.servers_on(r).empty();
  return expendable;
}

int report(const TrainArgs& args, const Json& summary, const std::string& run_dir) {
  const int columns = args.json ? stderr_columns() : stdout_columns();
  std::string text = final_line(summary, run_dir) + "\n";
  if (summary.value("finished", false)) text += best_line(summary, run_dir);
  if (!args.quiet) text += final_table(summary, columns);
  text += last_lines(summary, args.quiet);
  std::fputs(wrap_lines(text, columns).c_str(), args.json ? stderr : stdout);
  if (args.json) std::fputs((summary.dump(2) + "\n").c_str(), stdout);
  return summary.value("finished", false) ? kExitOk : kExitStopped;
}

std::function<int()> add_train(Options& app) {
  auto args = std::make_shared<TrainArgs>();
  add_job_options(app, args->job);
  add_worker_options(app, *args);
  add_host_options(app, *args);
  app.add_option(
         "--run-dir", args->run_dir,
         "Folder of this run. Default: runs/<name>-<n>. An unfinished run in it is resumed, a finished one "
         "is continued when more train.epochs or train.steps are asked for")
      ->group(kOutput);
  app.add_flag("--json", args->json,
               "Print summary.json last on standard output, everything else on standard error")
      ->group(kOutput);
  app.add_flag("--quiet", args->quiet, "Print no progress, only the final line")->group(kOutput);
  app.add_flag("--verbose", args->verbose, "Print one status line per worker every 5 s")->group(kOutput);
  app.add_option("--slow", args->slow_texts, "Slow a rank down on purpose: rank=2,factor=4")->group(kTesting);
  app.add_option("--fault", args->fault_texts,
                 "Inject a fault: RANK:KIND@SITE:INDEX, such as 1:kill@collective:7")
      ->group(kTesting);
  app.add_flag("--prepared", args->prepared)->group("");  // of our own launcher
  app.add_option("--job-text", args->job_text)->group("");
  app.add_option("--command", args->command)->group("");  // of our own launcher of other hosts
  app.footer(
      "Without a job file it trains on the built-in digits. The same command resumes an unfinished run.\n"
      "Under mpirun, srun or torchrun the same command is one rank of the job.\n"
      "Ctrl-C: once to save and stop, twice to stop now. Keys for --set: trireme inspect job");
  return [args] { return run_train(*args); };
}

}  // namespace trireme::cli
