#include "trireme/measure/collective/run_rank.h"

#include <algorithm>

#include "trireme/runtime/real/real_runtime.h"

namespace trireme::measure {
namespace {

runtime::Task<void> rank_main(runtime::Runtime& rt, RankOptions options, Status* status) {
  *status = co_await serve_rank(rt, std::move(options));
}

// As `train` makes the Runtime of a rank.
Status run_with(RankOptions options, std::optional<double> spin_us, std::shared_ptr<runtime::Fabric> fabric) {
  const int world = options.connect.world;
  runtime::RealOptions real;
  real.name = fmt::format("rank {}", options.connect.rank);
  real.compute_threads = std::max(1, runtime::num_cores() / world);
  if (world > runtime::num_cores()) real.spin_ns = 0;
  if (spin_us) real.spin_ns = static_cast<TimeNs>(*spin_us * 1e3);
  real.fabric = std::move(fabric);
  options.spin_ns = real.spin_ns;
  const auto rt = runtime::make_real_runtime(real);
  Status status = Status(Code::kInternal, "[bench] not started");
  rt->run(rank_main(*rt, std::move(options), &status));
  return status;
}

}  // namespace

Status run_rank(RankOptions options, std::optional<double> spin_us) {
  return run_with(std::move(options), spin_us, nullptr);
}

Status run_ranks_in_threads(const RankOptions& options, std::optional<double> spin_us) {
  const auto fabric = runtime::make_fabric();
  const auto world = static_cast<std::size_t>(options.connect.world);
  std::vector<Status> statuses(world);
  std::vector<std::function<void()>> bodies;
  for (std::size_t r = 0; r < world; ++r)
    bodies.emplace_back([&, r] {
      RankOptions own = options;
      own.connect.rank = static_cast<int>(r);
      statuses[r] = run_with(std::move(own), spin_us, fabric);
    });
  runtime::run_in_threads(std::move(bodies));
  for (const Status& s : statuses)
    if (!s.ok()) return s;
  return {};
}

}  // namespace trireme::measure
