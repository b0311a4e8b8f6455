#include "trireme/cli/bench/bench_server.h"

#include <cstdio>

#include "trireme/cli/bench/server_report.h"
#include "trireme/cli/bench/sizes.h"
#include "trireme/cli/command.h"
#include "trireme/cli/job_source.h"
#include "trireme/measure/link.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::cli {
namespace {

using runtime::Task;

struct Setup {
  std::vector<int> workers, servers;
  std::vector<std::uint64_t> sizes;
  std::size_t num_cases() const { return workers.size() * servers.size() * sizes.size(); }
};

Task<void> make_dirs(runtime::Runtime& rt, const std::vector<std::string>& dirs, Status& status) {
  for (const std::string& dir : dirs)
    if (status.ok()) status = co_await rt.files().make_dirs(dir);
}

Task<void> remove_dir(runtime::Runtime& rt, std::string dir) {
  (void)co_await rt.files().remove_all(std::move(dir));
}

// What two ranks reach in this run, unless the caller knows his link.
Result<cost::LinkModel> link_of(const ServerBenchArgs& args, const std::vector<std::string>& dirs,
                                std::string& source) {
  cost::LinkModel link;
  source = "as given";
  if (args.gbit <= 0 || args.latency_us < 0) {
    measure::LinkMeasurement what;
    what.transport = args.transport;
    what.dirs = dirs;
    TR_ASSIGN_OR_RETURN(const cost::TransportCalibration measured, measure::measure_link(what));
    link = measured.link;
    source = "ping-pong of two ranks in this run";
  }
  if (args.gbit > 0) link.bytes_per_second = args.gbit * 1e9 / 8;
  if (args.latency_us >= 0) link.latency_ns = from_seconds(args.latency_us * 1e-6);
  return link;
}

Status measure_all(const ServerBenchArgs& args, const Setup& setup, const std::vector<std::string>& dirs) {
  std::string source;
  TR_ASSIGN_OR_RETURN(const cost::LinkModel link, link_of(args, dirs, source));
  if (!args.json) std::fputs(bench::server_table_header(args.transport, link).c_str(), stdout);
  std::vector<measure::ServerFigures> rows;
  std::size_t next_dir = measure::kMeetings + 1;
  for (const int workers : setup.workers)
    for (const int servers : setup.servers)
      for (const std::uint64_t bytes : setup.sizes) {
        measure::ServerCase one;
        one.transport = args.transport;
        one.dir = dirs[next_dir++];
        one.workers = workers;
        one.servers = servers;
        one.bytes = bytes;
        one.repeats = args.repeats;
        if (args.seconds > 0)
          one.seconds = args.seconds / static_cast<double>(setup.num_cases()) / args.repeats;
        TR_ASSIGN_OR_RETURN(measure::ServerFigures figures, measure::measure_servers(one));
        figures.bound_us = measure::server_bound_us(one, link);
        if (!args.json) std::fputs(bench::server_table_row(figures, runtime::num_cores()).c_str(), stdout);
        std::fflush(stdout);
        rows.push_back(std::move(figures));
      }
  if (args.json) std::fputs((bench::server_json(rows, link, source).dump(2) + "\n").c_str(), stdout);
  return {};
}

Result<Setup> parse(const ServerBenchArgs& args) {
  Setup setup;
  TR_ASSIGN_OR_RETURN(setup.workers, bench::parse_worlds(args.workers));
  TR_ASSIGN_OR_RETURN(setup.servers, bench::parse_worlds(args.servers));
  TR_ASSIGN_OR_RETURN(setup.sizes, bench::parse_sizes(args.sizes));
  if (args.transport == "mpi")
    return error(
        Code::kInvalid,
        "[bench] servers over mpi: got threads of one process, expected --transport inproc, shm, tcp");
  return setup;
}

}  // namespace

int run_server_bench(const ServerBenchArgs& args) {
  const Result<Setup> setup = parse(args);
  if (!setup.ok()) {
    print_error(setup.status());
    return kExitUsage;
  }
  runtime::RealOptions real;
  real.name = "bench";
  real.compute_threads = 1;
  real.spin_ns = 0;
  const auto rt = runtime::make_real_runtime(real);
  const std::string root = fmt::format("{}/trireme-bench-{:x}", places().temp_dir, rt->unix_time_ns());
  std::vector<std::string> dirs;
  for (std::size_t i = 0; i < setup->num_cases() + measure::kMeetings + 1; ++i)
    dirs.push_back(fmt::format("{}/{}", root, i));
  Status status;
  rt->run(make_dirs(*rt, dirs, status));
  if (status.ok()) status = measure_all(args, *setup, dirs);
  rt->run(remove_dir(*rt, root));
  return status.ok() ? kExitOk : print_error(status);
}

}  // namespace trireme::cli
