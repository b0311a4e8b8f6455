// `trireme bench-rank`: a rank of `trireme bench`, started by it or by hand (on another host, in a network
// namespace). Hidden: users call bench.
#include "trireme/cli/command.h"
#include "trireme/cli/number_checks.h"
#include "trireme/launch/launch.h"
#include "trireme/measure/collective/run_rank.h"

namespace trireme::cli {
namespace {

struct BenchRankArgs {
  measure::RankOptions rank;
  std::string buffers = "heap";
  double spin_us = -1;
  int number = -1;
};

int run_bench_rank(BenchRankArgs& args) {
  args.rank.shared_buffers = args.buffers == "shared";
  std::optional<double> spin_us;
  if (args.spin_us >= 0) spin_us = args.spin_us;
  if (args.rank.transport == "inproc" && args.number < 0) {
    args.rank.connect.rank = args.number;
    const Status status = measure::run_ranks_in_threads(args.rank, spin_us);
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
  args.rank.connect.rank = args.number;
  const Status status = measure::run_rank(args.rank, spin_us);
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
