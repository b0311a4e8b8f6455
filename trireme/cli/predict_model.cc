#include "trireme/cli/predict_model.h"

#include <algorithm>
#include <cstdio>

#include "trireme/cli/faults.h"
#include "trireme/cli/job_source.h"
#include "trireme/cli/number_checks.h"
#include "trireme/cli/terminal.h"
#include "trireme/job/roles.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/real/this_process.h"
#include "trireme/start/mesh_ranks.h"

namespace trireme::cli {

using runtime::Runtime;
using runtime::Task;

void add_trained_options(Options& app, TrainedArgs& args) {
  app.add_option("run", args.source.path,
                 "Folder of a run, such as runs/digits-1; or a checkpoint or .safetensors file, with --job")
      ->required();
  app.add_option("--job", args.source.job_path, "Job file, if not the one of the run folder");
  Option* checkpoint = app.add_option(
      "--checkpoint", args.source.checkpoint,
      "Checkpoint to use instead of the newest of the run: a step-<n> folder or a .safetensors file");
  app.add_flag("--best", args.source.best, "Use the checkpoint of the best evaluation instead of the newest")
      ->excludes(checkpoint);
  app.add_option("--data.path", args.data_path, "Where the data is now; short for --set data.path=PATH");
  app.add_option("--device", args.source.device, "Device: cpu, cuda, auto. Default: the one of the training");
  app.add_option("--set", args.source.sets,
                 "Override a key of the job's table [data], such as data.limit_test=100")
      ->type_name("KEY=VALUE");
  app.add_option("--workers", args.workers, "Processes that share the samples, on this host. Default: one")
      ->check(integer_in(1, 65536));
  app.add_option(
         "--mesh", args.mesh,
         "How processes share samples and model, such as model=2, stage=2 or data=2,model=2: replicas of "
         "the model, each cut over processes (its layers, or between layers), none of which holds it whole")
      ->type_name("AXES");
  app.add_option("--fault", args.faults)->group("");
  app.add_option("--verified", args.source.verified)->group("");  // of our own launcher
}

void print_note(std::string_view text) { std::fputs(fmt::format("note: {}\n", text).c_str(), stderr); }

apply::BatchProgress batch_progress(bool quiet) {
  const Terminal terminal = stderr_terminal();
  if (quiet || !terminal.redraws) return {};
  return [terminal, shown = std::int64_t{-1}](std::int64_t done, std::int64_t total) mutable {
    const std::int64_t percent = 100 * done / total;
    if (percent == shown) return;
    shown = percent;
    const double fraction = static_cast<double>(done) / static_cast<double>(total);
    const int columns = terminal.columns();
    constexpr int kCells = 20, kBeside = 9;  // edges, blanks and the number
    const int cells = columns > 0 ? std::clamp(columns - kBeside, 1, kCells) : kCells;
    const std::string bar = draw_bar(fraction, cells, terminal.blocks);
    terminal.write(done == total ? "\r\x1b[K" : fmt::format("\r{} {:3} %\x1b[K", bar, percent));
  };
}

namespace {

using TaskFn = std::function<Task<Status>(Runtime&)>;
Task<void> run_to_end(Runtime& rt, const TaskFn& task, Status& status) { status = co_await task(rt); }

void print_log(std::string_view line) { std::fputs(fmt::format("{}\n", line).c_str(), stderr); }

// On a Runtime of its own. A failure is printed; the exit code.
int run_and_report(const char* name, const TaskFn& task) {
  runtime::RealOptions real;
  real.name = name;
  real.log_sink = print_log;
  const auto rt = runtime::make_real_runtime(real);
  Status status;
  rt->run(run_to_end(*rt, task, status));
  if (status.code() == Code::kCancelled) return kExitStopped;
  return status.ok() ? kExitOk : print_error(status);
}

void print_notes(const apply::LoadedModel& model) {
  for (const std::string& note : model.notes) print_note(note);
}

Task<Status> check_first(Runtime& rt, const ModelUse& use) {
  if (!use.check_first) co_return Status();
  co_return co_await use.check_first(rt);
}

Task<Status> use_alone(Runtime& rt, const apply::ModelSource& source, const ModelUse& use) {
  TR_CO_RETURN_IF_ERROR(co_await check_first(rt, use));
  const Result<apply::LoadedModel> model = co_await apply::load_model(rt, source);
  if (!model.ok()) co_return model.status();
  print_notes(*model);
  co_return co_await use.run(rt, *model, true);
}

// Ranks are refused what this process would be refused, before they start. They read what it has verified.
Task<Status> start_ranks(Runtime& rt, const apply::ModelSource& source, const ModelUse& use,
                         start::MeshRun run) {
  TR_CO_RETURN_IF_ERROR(co_await check_first(rt, use));
  std::string verified;
  {
    const Result<apply::OpenedModel> opened = co_await apply::open_model(rt, source);
    if (!opened.ok()) co_return opened.status();
    TR_CO_RETURN_IF_ERROR(apply::check_cut(opened->model, run.mesh));
    TR_CO_RETURN_IF_ERROR(co_await use.check_ranks(rt, opened->model, run.mesh));
    verified = opened->files->info().path;
    run.deadline = opened->model.job.parallel.deadline_ms * kMilli;
  }
  run.command.insert(run.command.end(), {"--verified", verified});
  co_return co_await start::run_mesh_processes(rt, std::move(run));
}

// One of those ranks.
class RankUse final : public start::RankWork {
 public:
  RankUse(apply::ModelSource source, parallel::Mesh mesh, const ModelUse& use)
      : source_(std::move(source)), mesh_(std::move(mesh)), use_(use) {}

  Task<Status> prepare(Runtime& rt) override {
    Result<apply::OpenedModel> opened = co_await apply::open_model(rt, source_);
    if (opened.ok()) opened_ = std::make_unique<apply::OpenedModel>(std::move(*opened));
    co_return opened.status();
  }
  TimeNs deadline() const override { return opened_->model.job.parallel.deadline_ms * kMilli; }
  Task<Status> run(Runtime& rt, comm::Group& group) override {
    auto model = co_await apply::read_model_part(rt, std::move(*opened_), group, mesh_);
    if (!model.ok()) co_return model.status();
    if (group.rank() == 0) print_notes(*model);
    co_return co_await use_.run(rt, *model, group.rank() == 0);
  }

 private:
  const apply::ModelSource source_;
  const parallel::Mesh mesh_;
  const ModelUse& use_;
  std::unique_ptr<apply::OpenedModel> opened_;
};

// The mesh of the options, as that of a job.
Result<parallel::Mesh> mesh_of(const TrainedArgs& args) {
  job::Job job;
  job.parallel.mesh = args.mesh;
  if (args.workers > 0) job.parallel.workers = args.workers;
  job::take_workers_of_mesh(job, args.workers > 0);
  return job::mesh_of(job);
}

Result<std::vector<start::RankFault>> faults_of(const TrainedArgs& args, const parallel::Mesh& mesh) {
  std::vector<start::RankFault> faults;
  for (const std::string& text : args.faults) {
    TR_ASSIGN_OR_RETURN(const FaultOption fault, parse_fault(text));
    faults.push_back(real_fault(fault));
  }
  TR_RETURN_IF_ERROR(start::check_faults(faults, mesh.num_ranks()));
  return faults;
}

int run_as_rank(const TrainedArgs& args, const launch::RankIdentity& id, start::MeshRank rank,
                const ModelUse& use) {
  apply::ModelSource source = args.source;
  source.local_rank = id.local_rank;
  rank.id = id;
  rank.log_sink = print_log;
  auto work = std::make_unique<RankUse>(std::move(source), rank.mesh, use);
  const start::MeshRankEnd end = start::run_mesh_rank(rank, std::move(work));
  if (end.failure.ok()) return kExitOk;
  return end.is_told ? kExitFailed : print_error(end.failure);
}

// Words that start this very command once more.
std::vector<std::string> own_command() {
  std::vector<std::string> words = runtime::command_line();
  if (!words.empty()) words[0].clear();
  return words;
}

}  // namespace

int use_model(TrainedArgs args, const ModelUse& use) {
  if (!args.data_path.empty()) args.source.sets.push_back(fmt::format("data.path={}", args.data_path));
  args.source.cache_dir = places().cache_dir;
  const Result<parallel::Mesh> mesh = mesh_of(args);
  if (!mesh.ok()) return print_error(mesh.status());
  Result<std::vector<start::RankFault>> faults = faults_of(args, *mesh);
  if (!faults.ok()) return print_error(faults.status());
  if (mesh->num_ranks() == 1)
    return run_and_report(use.name, [&](Runtime& rt) { return use_alone(rt, args.source, use); });
  const auto id = launch::rank_from_environment(environment);
  if (!id.ok()) return print_error(id.status());
  if (id->has_value() && !args.source.verified.empty())
    return run_as_rank(args, **id, {{}, *mesh, std::move(*faults)}, use);
  if (id->has_value())
    return print_error(
        error(Code::kInvalid,
              "[launch] {} has started this process, and --mesh or --workers would start more; "
              "run it without {}",
              (*id)->launcher, (*id)->launcher));
  start::MeshRun run;
  run.mesh = *mesh;
  run.command = own_command();
  run.temp_dir = places().temp_dir;
  return run_and_report(use.name, [&](Runtime& rt) { return start_ranks(rt, args.source, use, run); });
}

}  // namespace trireme::cli
