#include "trireme/cli/plan_options.h"

#include <algorithm>

#include "trireme/cli/command.h"
#include "trireme/job/roles.h"

namespace trireme::cli {
namespace {

runtime::Task<void> load_rates(runtime::Runtime& rt, const job::Job& job,
                               std::shared_ptr<const cost::Rates>& out) {
  out = co_await start::read_rates(rt, job, rate_source(job), places());
}

}  // namespace

start::RateSource rate_source(const job::Job& job) {
  const job::Roles roles = job::roles_of(job);
  start::RateSource source;
  // Hosts of their own where a link lies between the workers, otherwise this one.
  const bool apart = !job.parallel.link.empty();
  source.transport = roles.world == 1 ? "none" : apart ? "tcp" : "shm";
  source.ranks_on_host = apart ? 1 : roles.world;
  source.one_host = !apart;
  return source;
}

prepare::PrepareOptions plan_options(runtime::RealRuntime& rt, const job::Job& job) {
  std::shared_ptr<const cost::Rates> rates;
  rt.run(load_rates(rt, job, rates));
  return plan_options(job, *rates);
}

prepare::PrepareOptions plan_options(const job::Job& job, const cost::Rates& rates) {
  prepare::PrepareOptions options;
  const job::Roles roles = job::roles_of(job);
  options.replicas = roles.num_replicas();
  options.tiles = job::tiles_of(job);
  options.compute_threads = std::max(1, rates.machine.cores);
  options.transport = roles.workers > 1 ? (job.parallel.link.empty() ? "shm" : "tcp") : "none";
  options.machine = rates.machine;
  options.link = rates.comm.link;
  options.rates = std::make_shared<cost::Rates>(rates);
  return options;
}

}  // namespace trireme::cli
