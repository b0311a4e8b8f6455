#include "trireme/measure/calibrate.h"

#include <chrono>

#include "trireme/measure/busy.h"
#include "trireme/measure/direct.h"
#include "trireme/measure/host.h"
#include "trireme/measure/link.h"
#include "trireme/net/factory.h"
#include "trireme/runtime/files.h"

namespace trireme::measure {
namespace {

using runtime::Task;

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

// An empty folder per meeting of the two ranks.
Task<Result<std::string>> make_meeting_dirs(runtime::Runtime& rt, std::string temp_dir,
                                            LinkMeasurement& what) {
  const std::string dir = fmt::format("{}/trireme-{:x}", temp_dir, rt.unix_time_ns());
  what.dirs.clear();
  for (int i = 0; i <= kMeetings; ++i) {
    what.dirs.push_back(fmt::format("{}/{}", dir, i));
    TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(what.dirs.back()));
  }
  co_return dir;
}

Task<Status> measure_transport(runtime::Runtime& rt, const CalibrateOptions& options, std::string name,
                               cost::Calibration& calibration) {
  LinkMeasurement what;
  what.transport = name;
  what.quick = options.quick;
  TR_CO_ASSIGN_OR_RETURN(const std::string dir, co_await make_meeting_dirs(rt, options.temp_dir, what));
  Result<cost::TransportCalibration> measured = measure_link(what);
  TR_CO_RETURN_IF_ERROR(co_await rt.files().remove_all(dir));
  if (!measured.ok()) co_return measured.status().with_prefix(fmt::format("{}: ", name));
  const bool has_memory = measured->peer_bytes_per_second > 0;
  calibration.transports.push_back(std::move(*measured));
  if (!has_memory) co_return Status();
  TR_CO_ASSIGN_OR_RETURN(const std::string dir_of_sums,
                         co_await make_meeting_dirs(rt, options.temp_dir, what));
  Result<std::optional<cost::TransportCalibration>> sums =
      measure_direct(what, calibration.reduce_seconds_per_byte);
  TR_CO_RETURN_IF_ERROR(co_await rt.files().remove_all(dir_of_sums));
  if (!sums.ok()) co_return sums.status().with_prefix(fmt::format("{}: ", kDirectName));
  if (*sums) calibration.transports.push_back(std::move(**sums));
  co_return Status();
}

}  // namespace

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

Task<Result<cost::Calibration>> calibrate(runtime::Runtime& rt, CalibrateOptions options) {
  cost::Calibration calibration;
  calibration.host = co_await host_name(rt);
  calibration.date = date_of(rt.unix_time_ns());
  options.doing("measuring the processor ...");
  TR_CO_RETURN_IF_ERROR(measure_host(rt, options.quick, calibration));
  options.doing("measuring the memory ...");
  co_await measure_memory(rt, options.quick, calibration);
  options.doing("measuring cores that are busy together ...");
  TR_CO_RETURN_IF_ERROR(measure_busy(options.quick, calibration));
  for (const std::string& name : options.transports) {
    options.doing(fmt::format("measuring the transport {} ...", name));
    TR_CO_RETURN_IF_ERROR(co_await measure_transport(rt, options, name, calibration));
  }
  co_return calibration;
}

void keep_others(const cost::Calibration& before, cost::Calibration& now) {
  if (before.host != now.host) return;
  for (const cost::TransportCalibration& t : before.transports)
    if (now.find(t.transport) == nullptr) now.transports.push_back(t);
  if (now.op_times.is_empty()) now.op_times = before.op_times;
}

}  // namespace trireme::measure
