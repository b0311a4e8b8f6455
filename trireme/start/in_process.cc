#include "trireme/start/in_process.h"

#include <algorithm>

#include "trireme/job/roles.h"
#include "trireme/tensor/host_memory.h"

namespace trireme::start {
namespace {

runtime::Task<void> run_rank(train::RankContext context, Result<record::Summary>* out) {
  *out = co_await train::train_rank(std::move(context));
}

}  // namespace

std::vector<Result<record::Summary>> train_in_process(const InProcessOptions& options) {
  const int world = job::roles_of(options.job).world;
  const auto fabric = runtime::make_fabric();
  std::vector<Result<record::Summary>> results(static_cast<std::size_t>(world),
                                               Status(Code::kInternal, "[train] not started"));
  if (options.send_logs != nullptr) options.send_logs->resize(results.size());
  std::vector<std::function<void()>> bodies;
  for (int rank = 0; rank < world; ++rank) {
    bodies.push_back([&, rank] {
      const auto at = static_cast<std::size_t>(rank);
      runtime::RealOptions real;
      real.name = fmt::format("rank {}", rank);
      real.compute_threads = std::max(1, runtime::num_cores() / world);
      if (world > runtime::num_cores()) real.spin_ns = 0;
      real.fabric = fabric;
      if (at < options.faults.size()) real.faults = options.faults[at];
      if (at < options.slow_factors.size()) real.slow_factor = options.slow_factors[at];
      if (rank == 0) real.log_sink = options.log_sink;
      const auto rt = runtime::make_real_runtime(real);
      train::RankContext context;
      context.rt = rt.get();
      context.job = options.job;
      context.transport = "inproc";
      context.connect.rank = rank;
      context.connect.world = world;
      context.owns_process = world == 1;
      context.run_dir = options.run_dir;
      context.data = options.data;
      context.machine.cores = real.compute_threads;
      context.rates = options.rates;
      context.kernel_cache = options.kernel_cache;
      if (rank == 0) context.progress = options.progress;
      if (options.send_logs != nullptr) context.send_log = &(*options.send_logs)[at];
      if (rank == 0 && options.handle_interrupt) train::stop_on_interrupt(*rt, context.stop);
      rt->run(run_rank(std::move(context), &results[at]));
    });
  }
  restart_host_peak();
  runtime::run_in_threads(std::move(bodies));
  return results;
}

}  // namespace trireme::start
