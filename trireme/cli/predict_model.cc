#include "trireme/cli/predict_model.h"

#include <algorithm>
#include <cstdio>

#include "trireme/cli/job_source.h"
#include "trireme/cli/terminal.h"
#include "trireme/runtime/real/real_runtime.h"

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
}

void print_note(std::string_view text) { std::fputs(fmt::format("note: {}\n", text).c_str(), stderr); }

Task<Result<apply::LoadedModel>> load_trained(Runtime& rt, TrainedArgs args) {
  if (!args.data_path.empty()) args.source.sets.push_back(fmt::format("data.path={}", args.data_path));
  args.source.cache_dir = places().cache_dir;
  Result<apply::LoadedModel> model = co_await apply::load_model(rt, std::move(args.source));
  if (model.ok())
    for (const std::string& note : model->notes) print_note(note);
  co_return model;
}

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
}  // namespace

int run_and_report(const char* name, const TaskFn& task) {
  runtime::RealOptions real;
  real.name = name;
  real.log_sink = [](std::string_view line) { std::fputs(fmt::format("{}\n", line).c_str(), stderr); };
  const auto rt = runtime::make_real_runtime(real);
  Status status;
  rt->run(run_to_end(*rt, task, status));
  return status.ok() ? kExitOk : print_error(status);
}

}  // namespace trireme::cli
