// `trireme bench train` and `trireme bench kernels`, and the hidden `bench-steps`, a process that they
// measure.
#include <cstdio>

#include "trireme/cli/bench/train_report.h"
#include "trireme/cli/command.h"
#include "trireme/cli/job_source.h"
#include "trireme/cli/number_checks.h"
#include "trireme/kernel/kernel.h"
#include "trireme/measure/step/step_server.h"
#include "trireme/measure/step/train_bench.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/real/executable.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::cli {
namespace {

using runtime::Task;

struct BenchTrainArgs {
  std::string workloads, dtypes, against, peers;
  bool json = false, no_ceiling = false, no_compile = false;
  bool kernels = false;  // only them
  measure::TrainBenchOptions options;
};

Status parse_dtypes(std::string text, const std::string& device, bool json, std::vector<std::string>& out) {
  const bool all = text.empty() && device != "cuda";
  if (text.empty()) text = all ? "f32,bf16" : "bf16";
  out.clear();
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string dtype = text.substr(at, end - at);
    at = end + 1;
    if (dtype != "f32" && dtype != "bf16" && dtype != "tf32" && dtype != "f16")
      return error(Code::kInvalid,
                   "[bench] no such dtype: got '{}', expected f32, bf16 (on a GPU also tf32, f16)", dtype);
    if (all && dtype == "bf16" && !measure::has_bf16_units()) {
      std::fputs("bf16 is left out: this processor has no units for it (--dtype bf16 measures it anyway)\n",
                 json ? stderr : stdout);
      continue;
    }
    out.push_back(dtype);
  }
  return {};
}

Status complete(BenchTrainArgs& args) {
  measure::TrainBenchOptions& o = args.options;
  TR_ASSIGN_OR_RETURN(o.workloads, measure::parse_workloads(args.workloads, o.device));
  TR_RETURN_IF_ERROR(parse_dtypes(args.dtypes, o.device, args.json, o.dtypes));
  if (!args.against.empty() && args.against != "torch")
    return error(Code::kInvalid, "[bench] nothing to measure against by that name: got '{}', expected torch",
                 args.against);
  o.torch = !args.against.empty();
  o.compile = !args.no_compile;
  o.ceiling = (args.kernels || !args.no_ceiling) && o.device == "cpu";
  if (args.kernels) o.rounds = 0;
  if (o.threads <= 0) o.threads = runtime::num_cores();
  o.binary = runtime::executable_path();
  if (o.quick) o.seconds = 0.01, o.rounds = std::min(o.rounds, 2);
  if (args.peers.empty()) args.peers = o.binary.substr(0, o.binary.rfind('/'));
  o.script = args.peers + "/bench_torch_steps.py";
  if (const char* python = environment("TRIREME_PYTHON"); python != nullptr && o.python.empty())
    o.python = python;
  if (o.python.empty()) o.python = "python3";
  return {};
}

Task<void> bench_main(runtime::Runtime& rt, BenchTrainArgs& args, Status& status, Json& rows) {
  std::string dir = fmt::format("{}/trireme-bench-{:x}", places().temp_dir, rt.unix_time_ns());
  status = co_await rt.files().make_dirs(dir);
  if (status.ok() && args.options.torch) status = co_await measure::check_torch(rt, args.options, dir);
  if (status.ok()) {
    std::function<void(const std::string&)> say = [](const std::string& line) {
      std::fputs((line + "\n").c_str(), stderr);
    };
    std::string table;
    const int threads = args.options.threads;
    std::function<void(const measure::TrainRow&)> on_row = [&](const measure::TrainRow& row) {
      rows.push_back(bench::to_json(row, threads));
      if (args.json) return;
      std::string text = args.kernels ? bench::kernels_text(row) : bench::train_table_row(row, threads);
      if (!args.kernels) table += text;
      std::fputs((text + bench::profile_text(row)).c_str(), stdout);
      std::fflush(stdout);
    };
    auto all = co_await measure::run_train_bench(rt, args.options, dir, std::move(say), std::move(on_row));
    status = all.status();
  }
  (void)co_await rt.files().remove_all(std::move(dir));
}

int run_bench_train(BenchTrainArgs& args) {
  if (const Status status = complete(args); !status.ok()) {
    print_error(status);
    return kExitUsage;
  }
  if (!args.json && !args.kernels) std::fputs(bench::train_table_header().c_str(), stdout);
  runtime::RealOptions real;
  real.name = "bench";
  real.spin_ns = 0;  // the driver takes no processor from those who are measured
  real.compute_threads = 1;
  const auto rt = runtime::make_real_runtime(real);
  Status status;
  Json rows = Json::array();
  rt->run(bench_main(*rt, args, status, rows));
  // Rows that are there are worth printing whatever came then.
  if (args.json && (status.ok() || !rows.empty())) {
    const Json report{{"rows", rows},
                      {"library", kernel::cpu_kernel_library()},
                      {"cores", runtime::num_cores()},
                      {"ok", status.ok()}};
    std::fputs((report.dump(2) + "\n").c_str(), stdout);
  }
  return status.ok() ? kExitOk : print_error(status);
}

void add_common(Options& app, const std::shared_ptr<BenchTrainArgs>& args) {
  std::string names;
  for (const measure::Workload& w : measure::workload_table())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", w.name);
  app.add_option("--workloads", args->workloads,
                 "Workloads, separated by commas. Default: all. Names: " + names);
  app.add_option("--device", args->options.device, "Device: cpu or cuda")->check(one_of({"cpu", "cuda"}));
  app.add_option(
      "--dtype", args->dtypes,
      "Precision: f32, bf16 or both (f32,bf16). Default: f32, and bf16 where the processor has units for it");
  app.add_option("--threads", args->options.threads, "Threads per side. Default: all cores")
      ->check(integer_in(1, 1024));
  app.add_flag("--quick", args->options.quick, "Small batches and few steps, to see that it works");
  app.add_flag("--json", args->json, "Print the rows as JSON");
}

struct BenchStepsArgs {
  measure::StepServerOptions options;
  int threads = 1;
};

Task<void> steps_main(runtime::Runtime& rt, measure::StepServerOptions options, Status& status) {
  status = co_await measure::serve_steps(rt, std::move(options));
}

int run_bench_steps(const BenchStepsArgs& args) {
  runtime::RealOptions real;  // as `train` makes the Runtime of its only rank
  real.name = "rank 0";
  real.compute_threads = args.threads;
  const auto rt = runtime::make_real_runtime(real);
  Status status;
  rt->run(steps_main(*rt, args.options, status));
  return status.ok() ? kExitOk : print_error(status);
}

}  // namespace

std::function<int()> add_bench_train(Options& bench) {
  Options* app =
      bench.add_subcommand("train", "Measure training steps against PyTorch's, and where their time goes.");
  auto args = std::make_shared<BenchTrainArgs>();
  args->options.threads = 0;
  add_common(*app, args);
  app->add_option("--against", args->against, "torch: measure PyTorch in the same run, eager and compiled");
  app->add_option("--python", args->options.python,
                  "Python interpreter with PyTorch. Default: $TRIREME_PYTHON, or python3");
  app->add_option("--peers", args->peers,
                  "Folder of bench_torch_steps.py. Default: the folder of the binary");
  app->add_flag("--no-compile", args->no_compile, "Do not measure torch.compile");
  app->add_option(
         "--ahead", args->options.ahead,
         "Start the PyTorch processes of all rows first, this many at a time; they wait until their row is "
         "measured. Default: each starts with its row")
      ->check(integer_in(1, 256));
  app->add_flag("--no-ceiling", args->no_ceiling, "Do not measure every heavy kernel alone");
  app->add_flag("--profile", args->options.profile, "Print where the time of a step goes, by op");
  app->add_option("--rounds", args->options.rounds, "Number of rounds over the sides")
      ->check(integer_in(1, 1000))
      ->show_default();
  app->add_option("--seconds", args->options.seconds, "Approximate seconds per side and round")
      ->check(above_zero())
      ->show_default();
  app->footer("A ratio above 1 means that ours is faster. How it is measured: docs/bench.md");
  return [app, args] { return app->parsed() ? run_bench_train(*args) : kExitOk; };
}

std::function<int()> add_bench_kernels(Options& bench) {
  Options* app = bench.add_subcommand(
      "kernels", "Measure every heavy kernel of those steps alone, against this machine's peak.");
  auto args = std::make_shared<BenchTrainArgs>();
  args->kernels = true;
  args->options.threads = 0;
  add_common(*app, args);
  app->footer("Columns: docs/bench.md");
  return [app, args] { return app->parsed() ? run_bench_train(*args) : kExitOk; };
}

std::function<int()> add_bench_steps(Options& app) {
  auto args = std::make_shared<BenchStepsArgs>();
  app.group("");  // not in the list of commands
  app.add_option("--driver", args->options.driver, "Socket of the trireme bench that measures")->required();
  app.add_option("--workload", args->options.workload, "Which")->required();
  app.add_option("--dtype", args->options.dtype, "f32, bf16");
  app.add_option("--device", args->options.device, "cpu, cuda");
  app.add_option("--threads", args->threads, "Compute threads")->check(above_zero());
  app.add_flag("--quick", args->options.quick, "A small batch");
  app.add_flag("--profile", args->options.profile, "Time every node");
  return [args] {
    args->options.kernel_cache = places().kernel_cache;
    return run_bench_steps(*args);
  };
}

}  // namespace trireme::cli
