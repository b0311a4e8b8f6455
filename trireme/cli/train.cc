// `trireme train`: its options, the run that they ask for (start/), and what is printed about it.
#include <cstdio>

#include "trireme/cli/command.h"
#include "trireme/cli/faults.h"
#include "trireme/cli/final_line.h"
#include "trireme/cli/final_table.h"
#include "trireme/cli/job_source.h"
#include "trireme/cli/last_lines.h"
#include "trireme/cli/number_checks.h"
#include "trireme/cli/predict_model.h"
#include "trireme/cli/progress_bar.h"
#include "trireme/cli/slow.h"
#include "trireme/job/roles.h"
#include "trireme/runtime/real/this_process.h"
#include "trireme/start/run_end.h"
#include "trireme/start/run_rank.h"
#include "trireme/start/train_on_host.h"
#include "trireme/start/train_on_hosts.h"

namespace trireme::cli {
namespace {

using runtime::Task;

struct TrainArgs {
  JobSource job;
  std::string job_text;  // not empty: the whole job as TOML, from a launcher on another host
  std::string command;   // not empty: what the user typed on another host
  std::string run_dir;
  int workers = 0;          // 0: as the job says
  int servers = -1;         // -1: as the job says
  std::string mesh;         // "": as the job says
  std::string transport;    // "": as the job says
  std::string device;       // empty: as the job says
  std::string coordinator;  // "": as the launcher says
  std::string hosts;        // "": this host alone; a file
  std::string ssh = start::HostsRun{}.ssh;
  std::string remote_binary;  // "": where this binary is
  bool insecure = false;
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  bool prepared = false;  // this rank was started by our own launcher, which made the run folder
  std::vector<std::string> fault_texts;
  std::vector<start::RankFault> faults;
  std::vector<std::string> slow_texts;
  std::vector<start::SlowRank> slow;
};

// What the options change in the job, but for --workers, which the number of ranks may decide.
void apply_options(const TrainArgs& args, job::Job& job) {
  if (!args.mesh.empty()) job.parallel.mesh = args.mesh;
  if (args.servers >= 0) job.parallel.servers = args.servers;
  if (!args.transport.empty()) job.parallel.transport = args.transport;
  if (!args.device.empty()) job.train.device = args.device;
}

// The options that every rank is given again.
std::vector<std::string> passed_on(const TrainArgs& args) {
  std::vector<std::string> words;
  if (args.insecure) words.emplace_back("--insecure");
  if (args.quiet) words.emplace_back("--quiet");
  if (args.verbose) words.emplace_back("--verbose");
  for (const std::string& fault : args.fault_texts) words.insert(words.end(), {"--fault", fault});
  for (const std::string& slow : args.slow_texts) words.insert(words.end(), {"--slow", slow});
  return words;
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

// Prints the final line (and the summary with --json); the exit code.
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

start::RunObserver observer_of(const TrainArgs& args) {
  start::RunObserver observer;
  observer.line = [](std::string_view line) { std::fputs(fmt::format("{}\n", line).c_str(), stderr); };
  if (args.quiet) return observer;
  observer.note = print_note;
  observer.progress = [verbose = args.verbose] { return make_progress_bar(stderr_terminal(), verbose); };
  return observer;
}

// What is being done, before there is progress to show.
class LoadingLine {
 public:
  void show(std::string_view text, TimeNs now) {
    now_ = now;
    if (text.empty())
      line_.clear();
    else
      line_.show(std::string(text));
  }

 private:
  TimeNs now_ = 0;
  StatusLine line_{stderr_terminal(), [this] { return now_; }};
};

int run_on_this_host(const TrainArgs& args, job::Job job) {
  LoadingLine line;
  start::HostRun run;
  run.job = std::move(job);
  run.run_dir = args.run_dir;
  run.command = args.command;
  run.places = places();
  run.rank_command = [&args](const std::string& run_dir) {
    std::vector<std::string> words{"", "train", "--prepared", "--run-dir", run_dir};
    for (const std::string& word : passed_on(args)) words.push_back(word);
    return words;
  };
  run.slow = args.slow;
  run.faults = args.faults;
  run.observer = observer_of(args);
  if (!args.quiet) run.observer.doing = [&line](std::string_view text, TimeNs now) { line.show(text, now); };
  const Result<start::Trained> trained = start::train_on_host(run);
  return trained.ok() ? report(args, trained->summary, trained->run_dir) : print_error(trained.status());
}

// Rank 0 has no terminal, so its lines are as long as they like; a JSON value stays as it is.
void print_output(std::string_view text, bool json) {
  std::fputs(wrap_lines(text, json ? 0 : stdout_columns()).c_str(), stdout);
  std::fflush(stdout);
}

start::HostsRun hosts_run(const TrainArgs& args, job::Job job) {
  start::HostsRun run;
  run.job = std::move(job);
  run.workers_given = args.workers > 0;
  run.hosts = args.hosts;
  run.ssh = args.ssh;
  run.binary = args.remote_binary;
  if (const char* here = environment("PWD"); here != nullptr) run.directory = here;
  run.coordinator = args.coordinator;
  run.insecure = args.insecure;
  run.places = places();
  run.rank_arguments = [&args](const std::string& text) {
    std::vector<std::string> words{"train", "--job-text", text};
    words.insert(words.end(), {"--command", start::this_owner(args.command).command});
    if (!args.run_dir.empty()) words.insert(words.end(), {"--run-dir", args.run_dir});
    if (args.json) words.emplace_back("--json");
    for (const std::string& word : passed_on(args)) words.push_back(word);
    return words;
  };
  run.slow = args.slow;
  run.faults = args.faults;
  run.output = [&args](std::string_view text) { print_output(text, args.json); };
  return run;
}

// The job; with --hosts it is also trained. False: it was stopped on request.
Task<void> launcher_main(runtime::Runtime& rt, const TrainArgs& args, Result<job::Job>& job,
                         Result<bool>& finished) {
  job = co_await load_job(rt, args.job);
  if (!job.ok()) co_return;
  if (args.workers > 0) job->parallel.workers = args.workers;
  apply_options(args, *job);
  job::take_workers_of_mesh(*job, args.workers > 0);
  if (args.hosts.empty()) co_return;
  start::HostsRun run = hosts_run(args, *job);
  finished = co_await start::train_on_hosts(rt, std::move(run));
}

int run_as_launcher(const TrainArgs& args) {
  Result<job::Job> job = Status(Code::kInternal, "[train] not started");
  Result<bool> finished = true;
  {
    runtime::RealOptions real;
    real.name = "launcher";
    real.log_sink = [](std::string_view line) {
      if (line.starts_with("warning:")) std::fputs(fmt::format("{}\n", line).c_str(), stderr);
    };
    const auto rt = runtime::make_real_runtime(real);
    rt->run(launcher_main(*rt, args, job, finished));
  }
  if (!job.ok()) return print_error(job.status());
  if (args.hosts.empty()) return run_on_this_host(args, std::move(*job));
  if (!finished.ok()) return print_error(finished.status());
  return *finished ? kExitOk : kExitStopped;
}

Task<Result<job::Job>> read_rank_job(runtime::Runtime& rt, const TrainArgs& args) {
  Result<job::Job> job = job::parse_job(args.job_text, "job");
  if (args.job_text.empty()) job = co_await load_job(rt, args.job);
  if (job.ok()) apply_options(args, *job);
  co_return job;
}

int run_as_rank(const TrainArgs& args, const launch::RankIdentity& id) {
  start::RankStart rank;
  rank.id = id;
  if (args.prepared) rank.prepared_dir = args.run_dir;
  rank.read_job = [&args](runtime::Runtime& rt) { return read_rank_job(rt, args); };
  rank.workers = args.workers;
  rank.run_dir = args.run_dir;
  rank.command = args.command;
  rank.insecure = args.insecure;
  rank.places = places();
  rank.slow = args.slow;
  rank.faults = args.faults;
  rank.observer = observer_of(args);
  rank.observer.failed = [number = id.rank](const Status& failure) {
    std::fputs(fmt::format("error: rank {}: {}\n", number, without_areas(failure.message())).c_str(), stderr);
  };
  const start::RankEnd end = start::run_rank(rank);
  if (!end.failure.ok()) return args.prepared ? kExitFailed : exit_code_of(end.failure);
  if (args.prepared) return kExitOk;
  if (id.rank == 0) return report(args, *end.summary, end.run_dir);
  return end.finished ? kExitOk : kExitStopped;
}

constexpr const char *kWorkers = "Workers", *kHosts = "Several hosts", *kOutput = "Output",
                     *kTesting = "Testing";

void add_worker_options(Options& app, TrainArgs& args) {
  app.add_option("--workers", args.workers, "Number of workers (overrides parallel.workers)")
      ->check(integer_in(1, 65536))
      ->group(kWorkers);
  app.add_option("--mesh", args.mesh,
                 "How the workers share the work, such as data=2,model=4: replicas of the model, each cut "
                 "over workers (overrides parallel.mesh)")
      ->type_name("AXES")
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
    args.faults.push_back(real_fault(*fault));
  }
  Result<std::vector<start::SlowRank>> slow = parse_slow(args.slow_texts);
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
