// `trireme calibrate`: measures this host and stores what prices and predictions are made of.
#include <cstdio>

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
  std::vector<std::string> transports{"inproc", "shm", "tcp"};
  std::string out;
  bool quick = false, json = false;
};

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

void print_calibration(const cost::Calibration& c, const std::string& path) {
  const cost::MachineModel& m = c.machine;
  print(fmt::format("{}, {} cores, {}\n", c.host, m.cores, c.date));
  print(fmt::format(
      "one core: adds {:.3g} GB/s (spread {:.0f} %), copies {:.3g} GB/s of traffic, {:.3g} "
      "GFLOP/s, {} per op; all cores copy {:.3g} GB/s\n",
      1e-9 / c.reduce_seconds_per_byte, 100 * c.reduce_spread, m.bytes_per_second * 1e-9,
      m.flops_per_second_per_core * 1e-9, format_duration(m.op_overhead_ns), c.host_bytes_per_second * 1e-9));
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
  print(fmt::format("\nstored in {}\n", path));
}

Task<Status> run(runtime::Runtime& rt, const CalibrateArgs& args) {
  const std::string path = args.out.empty() ? places().calibration() : args.out;
  if (path.empty())
    co_return error(Code::kInvalid,
                    "[calibrate] nowhere to store: neither XDG_STATE_HOME nor HOME is set; use --out FILE");
  TR_CO_RETURN_IF_ERROR(measure::check_transports(args.transports));
  if (args.out.empty()) TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(places().state_dir));
  TR_CO_RETURN_IF_ERROR(co_await rt.files().check_output(path));
  StatusLine line(stderr_terminal(), [&rt] { return rt.now(); });
  measure::CalibrateOptions options;
  options.transports = args.transports;
  options.quick = args.quick;
  options.temp_dir = places().temp_dir;
  options.doing = [&line](const std::string& text) { line.show(text); };
  TR_CO_ASSIGN_OR_RETURN(cost::Calibration calibration, co_await measure::calibrate(rt, options));
  line.clear();
  if (args.out.empty()) {
    const Result<std::optional<cost::Calibration>> before =
        co_await start::read_calibration(rt, places(), "");
    if (before.ok() && *before) measure::keep_others(**before, calibration);
  }
  const std::string text = cost::to_json(calibration).dump(2) + "\n";
  TR_CO_RETURN_IF_ERROR(co_await rt.files().write_atomic(path, as_bytes(text)));
  if (args.json)
    print(text);
  else
    print_calibration(calibration, path);
  co_return Status();
}

Task<void> keep(Task<Status> task, Status& status) { status = co_await std::move(task); }

}  // namespace

std::function<int()> add_calibrate(Options& app) {
  auto args = std::make_shared<CalibrateArgs>();
  app.add_option("--transport", args->transports, "Transports to measure. Default: inproc,shm,tcp")
      ->delimiter(',');
  app.add_option("--out", args->out, "File to write. Default: the one that other commands read");
  app.add_flag("--quick", args->quick, "Few repetitions, to see that it works");
  app.add_flag("--json", args->json, "Print the stored values as JSON");
  return [args] {
    runtime::RealOptions real;
    real.name = "calibrate";
    const auto rt = runtime::make_real_runtime(real);
    Status status;
    rt->run(keep(run(*rt, *args), status));
    return status.ok() ? kExitOk : print_error(status);
  };
}

}  // namespace trireme::cli
