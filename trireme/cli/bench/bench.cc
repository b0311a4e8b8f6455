// `trireme bench COLLECTIVE`: ours against Open MPI and Gloo in one run, alternating. `trireme bench server`
// is in bench_server.cc, `bench train` and `bench kernels` in bench_train.cc, `bench codec` in
// bench_codec.cc.
#include <cstdio>
#include <utility>

#include "trireme/cli/bench/bench_server.h"
#include "trireme/cli/bench/plot.h"
#include "trireme/cli/bench/report.h"
#include "trireme/cli/bench/sizes.h"
#include "trireme/cli/command.h"
#include "trireme/cli/job_source.h"
#include "trireme/cli/number_checks.h"
#include "trireme/measure/collective/driver.h"
#include "trireme/net/factory.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/real/executable.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/start/calibration_file.h"

namespace trireme::cli {

// Subcommands in files of their own.
std::function<int()> add_bench_train(Options& bench);
std::function<int()> add_bench_kernels(Options& bench);
std::function<int()> add_bench_codec(Options& bench);
namespace {

using runtime::Task;

struct BenchArgs {
  std::string collective;
  std::string worlds = "2", sizes = "1K..64M";
  std::string against;
  std::string buffers = "heap";
  std::string mpi_args, rank_prefix;
  std::string plot, calibration;
  double spin_us = -1;
  double gbit = 0, latency_us = -1;  // of the link, where it is known
  bool out_of_place = false, in_place = false;
  bool json = false, check = false;
  measure::BenchOptions options;
  ServerBenchArgs server;
};

// Options that both have mean the same.
int run_servers(BenchArgs& args) {
  args.server.sizes = args.sizes;
  args.server.transport = args.options.own.transport;
  args.server.gbit = args.gbit;
  args.server.latency_us = args.latency_us;
  args.server.repeats = args.options.repeats;
  args.server.seconds = args.options.seconds;
  args.server.json = args.json;
  return run_server_bench(args.server);
}

std::vector<std::string> words_of(const std::string& text, char separator) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text + separator) {
    if (c != separator) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  return words;
}

Status complete(BenchArgs& args) {
  measure::BenchOptions& o = args.options;
  TR_ASSIGN_OR_RETURN(o.kind, measure::parse_kind(args.collective));
  TR_ASSIGN_OR_RETURN(o.worlds, bench::parse_worlds(args.worlds));
  TR_ASSIGN_OR_RETURN(o.sizes, bench::parse_sizes(args.sizes));
  if (o.kind == collective::Kind::kBarrier) o.sizes.assign(1, 4);  // it has none
  o.against = words_of(args.against, ',');
  for (const std::string& peer : o.against)
    if (peer != "mpi" && peer != "gloo")
      return error(Code::kInvalid,
                   "[bench] nothing to measure against by that name: got '{}', expected mpi, gloo", peer);
  if (!o.algorithm.empty()) TR_RETURN_IF_ERROR(collective::find_algorithm(o.kind, o.algorithm).status());
  if (!args.plot.empty()) TR_RETURN_IF_ERROR(bench::check_plot_path(args.plot));
  o.in_place = !args.out_of_place;
  o.cores = runtime::num_cores();
  o.own_links = args.gbit > 0;
  o.peers.mpi_args = words_of(args.mpi_args, ' ');
  o.own.binary = runtime::executable_path();
  o.own.rank_prefix = words_of(args.rank_prefix, ' ');
  o.own.shared_buffers = args.buffers == "shared";
  if (args.spin_us >= 0) o.own.spin_us = args.spin_us;
  if (o.peers.peers_dir.empty()) o.peers.peers_dir = o.own.binary.substr(0, o.own.binary.rfind('/'));
  if (const char* python = environment("TRIREME_PYTHON"); python != nullptr && o.peers.python.empty())
    o.peers.python = python;
  if (o.peers.python.empty()) o.peers.python = "python3";
  return {};
}

// Prices and bounds come from the calibration, if there is one, or from the link as given.
Task<Status> load_models(runtime::Runtime& rt, BenchArgs& args) {
  Result<std::optional<cost::Calibration>> calibration =
      co_await start::read_calibration(rt, places(), args.calibration);
  if (!calibration.ok()) co_return calibration.status();
  args.options.models = [gbit = args.gbit, latency_us = args.latency_us,
                         transport = args.options.own.transport, found = std::move(*calibration)](int world) {
    if (gbit <= 0 && latency_us < 0)
      return found ? measure::calibrated_models(*found, transport, world)
                   : measure::default_models(transport, world);
    // A link of its own for every rank.
    measure::Models models = measure::default_models(transport, world);
    models.comm.ranks_per_host = 0;
    if (gbit > 0) models.comm.link.bytes_per_second = gbit * 1e9 / 8;
    if (latency_us >= 0) models.comm.link.latency_ns = from_seconds(latency_us * 1e-6);
    models.source = "link as given";
    return models;
  };
  co_return Status();
}

// Measures, then draws: a plot that fails does not lose the figures.
Task<Status> measure_and_draw(runtime::Runtime& rt, BenchArgs& args, std::string dir, Status& plotted,
                              measure::Report& report) {
  TR_CO_RETURN_IF_ERROR(co_await load_models(rt, args));
  std::function<void(const measure::BenchRow&)> on_row =
      [&args, first = true](const measure::BenchRow& row) mutable {
        if (args.json) return;
        if (std::exchange(first, false)) std::fputs(bench::table_header(args.options).c_str(), stdout);
        std::fputs(bench::table_row(row, args.options).c_str(), stdout);
        std::fflush(stdout);
      };
  TR_CO_ASSIGN_OR_RETURN(report, co_await measure::run_bench(rt, args.options, dir, on_row));
  if (args.plot.empty()) co_return Status();
  std::string script = bench::plot_script(report, args.options, args.plot);
  plotted = co_await bench::draw_plot(rt, std::move(script), dir, args.plot);
  co_return Status();
}

Task<void> bench_main(runtime::Runtime& rt, BenchArgs& args, Status& status, Status& plotted,
                      measure::Report& report) {
  const std::string dir = fmt::format("{}/trireme-bench-{:x}", places().temp_dir, rt.unix_time_ns());
  status = co_await rt.files().make_dirs(dir);
  if (status.ok()) status = co_await measure_and_draw(rt, args, dir, plotted, report);
  (void)co_await rt.files().remove_all(dir);
}

int run_bench_command(BenchArgs& args) {
  if (args.collective.empty()) {
    print_error(
        error(Code::kInvalid,
              "[bench] nothing to measure: expected train, kernels, codec, server or a collective; see "
              "'trireme bench --help'"));
    return kExitUsage;
  }
  if (args.collective == "server") return run_servers(args);
  if (const Status status = complete(args); !status.ok()) {
    print_error(status);
    return kExitUsage;
  }
  runtime::RealOptions real;
  real.name = "bench";
  real.spin_ns = 0;  // the driver takes no processor from the ranks
  real.compute_threads = 1;
  const auto rt = runtime::make_real_runtime(real);
  Status status, plotted;
  measure::Report report;
  rt->run(bench_main(*rt, args, status, plotted, report));
  if (!status.ok()) return print_error(status);
  const std::string models = args.options.models(args.options.worlds[0]).source;
  const std::string text = args.json ? bench::to_json(report, args.options, models).dump(2) + "\n"
                                     : bench::table_footer(report, args.options, models);
  std::fputs(text.c_str(), stdout);
  if (!plotted.ok()) return print_error(plotted);
  if (!args.check) return kExitOk;
  for (const bench::Goal& goal : bench::check_goals(report.rows, args.options.own_links))
    if (goal.missed_beyond_spread > 0) return kExitFailed;
  return kExitOk;
}

}  // namespace

std::function<int()> add_bench(Options& app) {
  auto args = std::make_shared<BenchArgs>();
  measure::BenchOptions& o = args->options;
  o.peers.python.clear();
  std::vector<std::string> transports;
  for (const net::TransportRow& row : net::transport_table()) transports.emplace_back(row.name);
  app.add_option("collective", args->collective,
                 "What to measure: allreduce, reduce, broadcast, gather, scatter, allgather, "
                 "reduce_scatter, all_to_all or barrier; or server: parameter servers");
  app.add_option("--world", args->worlds, "Numbers of ranks, such as 2,4,8")->show_default();
  app.add_option("--workers", args->server.workers, "server: numbers of workers")->show_default();
  app.add_option("--servers", args->server.servers, "server: numbers of servers")->show_default();
  app.add_option("--bytes", args->sizes, "Sizes: 1K,64K; 1K..64M (times 4); or 1K..64M*2")->show_default();
  app.add_option("--transport", o.own.transport, "Transport between our ranks")
      ->check(one_of(transports))
      ->show_default();
  app.add_option("--against", args->against, "Libraries to measure in the same run: mpi, gloo or mpi,gloo");
  app.add_option("--algorithm", o.algorithm, "Our algorithm. Default: the cheapest by prediction");
  auto* in = app.add_flag("--in-place", args->in_place, "The result replaces the input (default)");
  app.add_flag("--out-of-place", args->out_of_place, "Input and result are in different memory")
      ->excludes(in);
  app.add_option("--repeats", o.repeats, "Number of rounds over the sides")
      ->check(integer_in(1, 1000))
      ->show_default();
  app.add_option("--seconds", o.seconds, "Approximate seconds to spend on measuring")->check(above_zero());
  app.add_option("--buffers", args->buffers, "Memory of our tensors: heap, or shared (of Group::allocate)")
      ->check(one_of({"heap", "shared"}));
  app.add_option("--spin-us", args->spin_us, "Microseconds that our ranks spin before they block")
      ->check(zero_or_more());
  app.add_option("--mpi-args", args->mpi_args, "Flags for mpirun. Default: several settings are tried");
  app.add_option("--mpirun", o.peers.mpirun, "Open MPI's launcher")->show_default();
  app.add_option("--python", o.peers.python,
                 "Python interpreter with PyTorch. Default: $TRIREME_PYTHON, or python3");
  app.add_option("--peers", o.peers.peers_dir,
                 "Folder of bench_mpi_collectives and bench_gloo_collectives.py");
  app.add_option("--coordinator", o.own.coordinator, "tcp: HOST:PORT where rank 0 listens");
  app.add_flag("--insecure", o.own.insecure,
               "tcp: listen beyond loopback although connections are not encrypted");
  app.add_option("--rank-prefix", args->rank_prefix,
                 "Words before every rank's command; {rank} is its number");
  app.add_option("--calibration", args->calibration,
                 "Calibration file for prediction and bound. Default: what trireme calibrate stored");
  app.add_option("--gbit", args->gbit, "Bandwidth of the link in Gbit/s of payload, for prediction and bound")
      ->check(above_zero());
  app.add_option("--latency-us", args->latency_us,
                 "Latency of the link in microseconds, for prediction and bound")
      ->check(zero_or_more());
  app.add_option("--plot", args->plot, "Plot the times to FILE.svg or FILE.png (needs gnuplot)");
  app.add_flag("--check", args->check, "Exit code 1 when a goal is missed by more than the spread");
  app.add_flag("--json", args->json, "Print the rows as JSON");
  app.footer("Ratios above 1 mean that ours is faster. How it is measured: docs/bench.md");
  // Each runs when its own subcommand was parsed and does nothing otherwise.
  return [&app, args,
          parts = std::vector<std::function<int()>>{add_bench_train(app), add_bench_kernels(app),
                                                    add_bench_codec(app)}] {
    if (app.chosen() == nullptr) return run_bench_command(*args);
    for (const auto& part : parts)
      if (const int code = part(); code != kExitOk) return code;
    return kExitOk;
  };
}

}  // namespace trireme::cli
