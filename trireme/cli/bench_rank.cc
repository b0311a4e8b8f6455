// `trireme bench-rank`: a rank of `trireme bench`, started by it or by hand (on another host, in a network
// namespace). Hidden: users call bench.
#include <algorithm>

#include "trireme/cli/bench/rank.h"
#include "trireme/cli/command.h"
#include "trireme/cli/number_checks.h"
#include "trireme/launch/launch.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::cli {
namespace {

using runtime::Task;

struct BenchRankArgs {
  bench::RankOptions rank;
  std::string buffers = "heap";
  double spin_us = -1;
  int number = -1;
};

Task<void> rank_main(runtime::Runtime& rt, bench::RankOptions options, Status* status) {
  *status = co_await bench::serve_rank(rt, std::move(options));
}

// As `train` makes the Runtime of a rank.
Status run_rank(const BenchRankArgs& args, int rank, std::shared_ptr<runtime::Fabric> fabric) {
  const int world = args.rank.connect.world;
  runtime::RealOptions real;
  real.name = fmt::format("rank {}", rank);
  real.compute_threads = std::max(1, runtime::num_cores() / world);
  if (world > runtime::num_cores()) real.spin_ns = 0;
  if (args.spin_us >= 0) real.spin_ns = static_cast<TimeNs>(args.spin_us * 1e3);
  real.fabric = std::move(fabric);
  bench::RankOptions options = args.rank;
  options.connect.rank = rank;
  options.spin_ns = real.spin_ns;
  const auto rt = runtime::make_real_runtime(real);
  Status status = Status(Code::kInternal, "[bench] not started");
  rt->run(rank_main(*rt, std::move(options), &status));
  return status;
}

Status run_threads(const BenchRankArgs& args) {
  const auto fabric = runtime::make_fabric();
  const auto world = static_cast<std::size_t>(args.rank.connect.world);
  std::vector<Status> statuses(world);
  std::vector<std::function<void()>> bodies;
  for (std::size_t r = 0; r < world; ++r)
    bodies.push_back([&, r] { statuses[r] = run_rank(args, static_cast<int>(r), fabric); });
  runtime::run_in_threads(std::move(bodies));
  for (const Status& s : statuses)
    if (!s.ok()) return s;
  return {};
}

int run_bench_rank(BenchRankArgs& args) {
  args.rank.shared_buffers = args.buffers == "shared";
  if (args.rank.transport == "inproc" && args.number < 0) {
    const Status status = run_threads(args);
    return status.ok() ? kExitOk : print_error(status);
  }
  if (args.number < 0) {
    auto id = launch::rank_from_environment(environment);
    if (!id.ok()) return print_error(id.status());
    if (!id->has_value())
      return print_error(
          error(Code::kInvalid, "[bench] which rank is this? give --rank, or start it by a launcher"));
    args.number = (*id)->rank;
    args.rank.connect.world = (*id)->world;
  }
  const Status status = run_rank(args, args.number, nullptr);
  return status.ok() ? kExitOk : print_error(status);
}

}  // namespace

std::function<int()> add_bench_rank(Options& app) {
  auto args = std::make_shared<BenchRankArgs>();
  app.group("");  // not in the list of commands
  app.add_option("--driver", args->rank.driver, "Socket of the trireme bench that measures")->required();
  app.add_option("--transport", args->rank.transport, "How the ranks reach each other")->required();
  app.add_option("--world", args->rank.connect.world, "Number of ranks")->check(above_zero());
  app.add_option("--rank", args->number, "This rank (inproc: none, all are threads of this process)");
  app.add_option("--rendezvous", args->rank.connect.rendezvous, "Folder where the ranks meet (shm, tcp)");
  app.add_option("--coordinator", args->rank.connect.coordinator, "HOST:PORT where rank 0 listens (tcp)");
  app.add_flag("--insecure", args->rank.connect.insecure, "Listen beyond loopback, unencrypted (tcp)");
  app.add_option("--spin-us", args->spin_us, "Spin at most this long before blocking")->check(zero_or_more());
  app.add_option("--buffers", args->buffers, "Where tensors live")->check(one_of({"heap", "shared"}));
  return [args] { return run_bench_rank(*args); };
}

}  // namespace trireme::cli
