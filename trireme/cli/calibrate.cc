// `trireme calibrate`: measures this host and stores what prices and predictions are made of.
#include <cstdio>

#include "trireme/cli/calibrate_job.h"
#include "trireme/cli/command.h"
#include "trireme/cli/job_source.h"
#include "trireme/cli/terminal.h"
#include "trireme/measure/calibrate.h"
#include "trireme/measure/direct.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/start/calibration_file.h"

namespace trireme::cli {
namespace {

using runtime::Task;

struct CalibrateArgs {
  std::vector<std::string> transports;  // empty: as is usual
  std::string out;
  bool quick = false, json = false;
  CalibrateJobArgs job;
};

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

void print_calibration(const cost::Calibration& c) {
  const cost::MachineModel& m = c.machine;
  print(fmt::format("{}, {} cores, {}\n", c.host, m.cores, c.date));
  print(fmt::format(
      "one core: adds {:.3g} GB/s (spread {:.0f} %), copies {:.3g} GB/s of traffic, {:.3g} "
      "GFLOP/s, {} per op; all cores copy {:.3g} GB/s\n",
      1e-9 / c.reduce_seconds_per_byte, 100 * c.reduce_spread, m.bytes_per_second * 1e-9,
      m.flops_per_second_per_core * 1e-9, format_duration(m.op_overhead_ns), c.host_bytes_per_second * 1e-9));
  for (const cost::BusyCores& b : c.busy)
    print(fmt::format("{:>3} busy: {:.3g} GFLOP/s each, copy {:.3g} GB/s in all\n", b.cores,
                      b.flops_per_second_per_core * 1e-9, b.bytes_per_second * 1e-9));
  print(fmt::format("\n{:<10}{:>12}{:>12}{:>13}{:>14}{:>14}{:>11}{:>9}\n", "transport", "latency", "blocking",
                    "per message", "bandwidth", "peer memory", "fit error", "spread"));
  for (const cost::TransportCalibration& t : c.transports) {
    const std::string peer =
        t.peer_bytes_per_second > 0 ? fmt::format("{:.3g} GB/s", t.peer_bytes_per_second * 1e-9) : "-";
    print(fmt::format("{:<10}{:>12}{:>12}{:>13}{:>14}{:>14}{:>9.0f} %{:>7.0f} %\n", t.transport,
                      format_duration(t.link.latency_ns), format_duration(t.blocking_latency_ns),
                      format_duration(t.link.message_overhead_ns),
                      fmt::format("{:.3g} GB/s", t.link.bytes_per_second * 1e-9), peer, 100 * t.fit_error,
                      100 * t.spread));
  }
  if (c.find(measure::kDirectName) != nullptr)
    print(
        fmt::format("{}: sums through shared memory; latency of a round of signals\n", measure::kDirectName));
  constexpr double kQuiet = 0.3;
  for (const cost::TransportCalibration& t : c.transports)
    if (t.spread > kQuiet || t.fit_error > kQuiet)
      print(fmt::format(
          "{} varies: spread {:.0f} %, fit error {:.0f} %; calibrate again when the host is idle\n",
          t.transport, 100 * t.spread, 100 * t.fit_error));
}

// Where to store, and what is stored there.
struct Stored {
  std::string path;
  std::optional<cost::Calibration> before;
};

Task<Status> find_stored(runtime::Runtime& rt, const CalibrateArgs& args, Stored& out) {
  out.path = args.out.empty() ? places().calibration() : args.out;
  if (out.path.empty())
    co_return error(Code::kInvalid,
                    "[calibrate] nowhere to store: neither XDG_STATE_HOME nor HOME is set; use --out FILE");
  TR_CO_RETURN_IF_ERROR(measure::check_transports(args.transports));
  if (args.out.empty()) TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(places().state_dir));
  TR_CO_RETURN_IF_ERROR(co_await rt.files().check_output(out.path));
  const Result<bool> there = co_await rt.files().exists(out.path);
  if (!there.ok() || !*there) co_return Status();
  // What cannot be read is written anew.
  Result<std::optional<cost::Calibration>> before = co_await start::read_calibration(rt, places(), out.path);
  if (before.ok()) out.before = std::move(*before);
  co_return Status();
}

Task<Status> measure_machine(runtime::Runtime& rt, const CalibrateArgs& args, StatusLine& line,
                             cost::Calibration& out) {
  measure::CalibrateOptions options;
  options.transports = args.transports;
  if (options.transports.empty()) options.transports = {"inproc", "shm", "tcp"};
  options.quick = args.quick;
  options.temp_dir = places().temp_dir;
  options.doing = [&line](const std::string& text) { line.show(text); };
  TR_CO_ASSIGN_OR_RETURN(out, co_await measure::calibrate(rt, options));
  co_return Status();
}

Task<Status> store(runtime::Runtime& rt, std::string path, const cost::Calibration& calibration) {
  const std::string text = cost::to_json(calibration).dump(2) + "\n";
  co_return co_await rt.files().write_atomic(std::move(path), as_bytes(text));
}

Task<void> keep(Task<Status> task, Status& status) { status = co_await std::move(task); }

// The machine, where the job is not all that is asked for, or nothing is stored yet; then the job.
Status run(runtime::RealRuntime& rt, const CalibrateArgs& args) {
  const auto wait = [&rt](Task<Status> task) {
    Status status;
    rt.run(keep(std::move(task), status));
    return status;
  };
  Stored stored;
  TR_RETURN_IF_ERROR(wait(find_stored(rt, args, stored)));
  StatusLine line(stderr_terminal(), [&rt] { return rt.now(); });
  cost::Calibration calibration;
  const bool has_job = args.job.is_given();
  const bool of_machine = !has_job || !stored.before || !args.transports.empty();
  if (of_machine) {
    TR_RETURN_IF_ERROR(wait(measure_machine(rt, args, line, calibration)));
    if (stored.before && (args.out.empty() || has_job)) measure::keep_others(*stored.before, calibration);
  } else {
    calibration = *stored.before;
  }
  std::optional<JobCalibration> job;
  if (has_job) {
    CalibrateJobArgs job_args = args.job;
    job_args.quick = args.quick;
    Result<JobCalibration> made = calibrate_job(
        rt, job_args, [&line](const std::string& text) { line.show(text); }, calibration);
    TR_RETURN_IF_ERROR(made.status());
    job = std::move(*made);
  }
  line.clear();
  TR_RETURN_IF_ERROR(wait(store(rt, stored.path, calibration)));
  if (args.json) {
    Json json = cost::to_json(calibration);
    if (job) json = to_json(*job);
    print(json.dump(2) + "\n");
    return {};
  }
  if (of_machine) print_calibration(calibration);
  if (job) print((of_machine ? "\n" : "") + to_text(*job));
  print(fmt::format("\nstored in {}\n", stored.path));
  return {};
}

}  // namespace

std::function<int()> add_calibrate(Options& app) {
  auto args = std::make_shared<CalibrateArgs>();
  add_calibrate_job(app, args->job);
  app.add_option("--transport", args->transports, "Transports to measure. Default: inproc,shm,tcp")
      ->delimiter(',');
  app.add_option("--out", args->out, "File to write. Default: the one that other commands read");
  app.add_flag("--quick", args->quick, "Few repetitions, to see that it works");
  app.add_flag("--json", args->json, "Print what was measured as JSON");
  return [args] {
    runtime::RealOptions real;
    real.name = "calibrate";
    real.log_sink = [](std::string_view text) {
      std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
    };
    const auto rt = runtime::make_real_runtime(real);
    const Status status = run(*rt, *args);
    return status.ok() ? kExitOk : print_error(status);
  };
}

}  // namespace trireme::cli
