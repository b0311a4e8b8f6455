// `trireme calibrate`: measures this host and stores what prices and predictions are made of.
#include <chrono>
#include <cstdio>

#include "trireme/cli/calibration_file.h"
#include "trireme/cli/command.h"
#include "trireme/cli/job_source.h"
#include "trireme/cli/measure_direct.h"
#include "trireme/cli/measure_host.h"
#include "trireme/cli/measure_link.h"
#include "trireme/cli/terminal.h"
#include "trireme/net/factory.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::cli {
namespace {

using runtime::Task;

struct CalibrateArgs {
  std::vector<std::string> transports{"inproc", "shm", "tcp"};
  std::string out;
  bool quick = false, json = false;
};

std::string date_of(std::int64_t unix_ns) {
  using namespace std::chrono;
  const std::int64_t seconds = unix_ns / kSecond, day_seconds = seconds % 86400;
  const year_month_day day{sys_days{days{seconds / 86400}}};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(day.year()),
                     static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()), day_seconds / 3600,
                     day_seconds / 60 % 60, day_seconds % 60);
}

Task<std::string> host_name(runtime::Runtime& rt) {
  const Result<Bytes> bytes = co_await rt.files().read("/proc/sys/kernel/hostname");
  std::string name(bytes.ok() ? as_text(*bytes) : "unknown");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  co_return name;
}

Status check_transports(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::string known;
    bool found = false;
    for (const net::TransportRow& row : net::transport_table()) {
      if (std::string_view(row.name) == "mpi") continue;  // its ranks come from mpirun
      found = found || name == row.name;
      known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
    }
    if (!found)
      return error(Code::kInvalid, "[calibrate] --transport: got '{}', expected one of {}", name, known);
  }
  return {};
}

// An empty folder per meeting of the two ranks.
Task<Result<std::string>> make_meeting_dirs(runtime::Runtime& rt, LinkMeasurement& what) {
  const std::string dir = fmt::format("{}/trireme-{:x}", temp_dir(), rt.unix_time_ns());
  what.dirs.clear();
  for (int i = 0; i <= kMeetings; ++i) {
    what.dirs.push_back(fmt::format("{}/{}", dir, i));
    TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(what.dirs.back()));
  }
  co_return dir;
}

Task<Status> measure_transport(runtime::Runtime& rt, const CalibrateArgs& args, std::string name,
                               cost::Calibration& calibration) {
  LinkMeasurement what;
  what.transport = name;
  what.quick = args.quick;
  TR_CO_ASSIGN_OR_RETURN(const std::string dir, co_await make_meeting_dirs(rt, what));
  Result<cost::TransportCalibration> measured = measure_link(what);
  TR_CO_RETURN_IF_ERROR(co_await rt.files().remove_all(dir));
  if (!measured.ok()) co_return measured.status().with_prefix(fmt::format("{}: ", name));
  const bool has_memory = measured->peer_bytes_per_second > 0;
  calibration.transports.push_back(std::move(*measured));
  if (!has_memory) co_return Status();
  TR_CO_ASSIGN_OR_RETURN(const std::string dir_of_sums, co_await make_meeting_dirs(rt, what));
  Result<std::optional<cost::TransportCalibration>> sums =
      measure_direct(what, calibration.reduce_seconds_per_byte);
  TR_CO_RETURN_IF_ERROR(co_await rt.files().remove_all(dir_of_sums));
  if (!sums.ok()) co_return sums.status().with_prefix(fmt::format("{}: ", kDirectName));
  if (*sums) calibration.transports.push_back(std::move(**sums));
  co_return Status();
}

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
  if (c.find(kDirectName) != nullptr)
    print(fmt::format("{}: sums through shared memory; latency of a round of signals\n", kDirectName));
  constexpr double kQuiet = 0.3;
  for (const cost::TransportCalibration& t : c.transports)
    if (t.spread > kQuiet || t.fit_error > kQuiet)
      print(fmt::format(
          "{} varies: spread {:.0f} %, fit error {:.0f} %; calibrate again when the host is idle\n",
          t.transport, 100 * t.spread, 100 * t.fit_error));
  print(fmt::format("\nstored in {}\n", path));
}

// What an earlier run measured of transports that this one leaves out stays.
void keep_others(const std::optional<cost::Calibration>& before, cost::Calibration& now) {
  if (!before || before->host != now.host) return;
  for (const cost::TransportCalibration& t : before->transports)
    if (now.find(t.transport) == nullptr) now.transports.push_back(t);
}

Task<Status> run(runtime::Runtime& rt, const CalibrateArgs& args) {
  const std::string path = args.out.empty() ? calibration_path() : args.out;
  if (path.empty())
    co_return error(Code::kInvalid,
                    "[calibrate] nowhere to store: neither XDG_STATE_HOME nor HOME is set; use --out FILE");
  TR_CO_RETURN_IF_ERROR(check_transports(args.transports));
  if (args.out.empty()) TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(state_dir()));
  TR_CO_RETURN_IF_ERROR(co_await rt.files().check_output(path));
  StatusLine line(stderr_terminal(), [&rt] { return rt.now(); });
  cost::Calibration calibration;
  calibration.host = co_await host_name(rt);
  calibration.date = date_of(rt.unix_time_ns());
  line.show("measuring the processor ...");
  TR_CO_RETURN_IF_ERROR(measure_host(rt, args.quick, calibration));
  line.show("measuring the memory ...");
  co_await measure_memory(rt, args.quick, calibration);
  for (const std::string& name : args.transports) {
    line.show(fmt::format("measuring the transport {} ...", name));
    TR_CO_RETURN_IF_ERROR(co_await measure_transport(rt, args, name, calibration));
  }
  line.clear();
  if (args.out.empty()) {
    const Result<std::optional<cost::Calibration>> before = co_await read_calibration(rt, "");
    if (before.ok()) keep_others(*before, calibration);
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
