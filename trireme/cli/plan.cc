// `trireme plan`: what a job would do with its gradients, tensor by tensor, and what everything else would
// cost. Reads the job, and the data as far as it decides the job; trains nothing.
#include "trireme/cli/command.h"
#include "trireme/cli/inspect/parts.h"
#include "trireme/cli/number_checks.h"
#include "trireme/cli/plan_options.h"
#include "trireme/job/roles.h"
#include "trireme/prepare/plan_report.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::cli {
namespace {

struct PlanArgs {
  InspectSource model;
  int workers = 0, servers = -1;  // as the job says
  std::string mesh, link;
  double gbit = 0, latency_us = -1;  // not given
  int cores = 0;
  double gflops_per_core = 0;
  bool json = false;
};

Status apply(const PlanArgs& args, job::Job& job) {
  if (args.workers > 0) job.parallel.workers = args.workers;
  if (!args.mesh.empty()) job.parallel.mesh = args.mesh;
  job::take_workers_of_mesh(job, args.workers > 0);
  if (args.servers >= 0) job.parallel.servers = args.servers;
  if (!args.link.empty() && args.gbit > 0)
    return error(Code::kInvalid, "[plan] --link and --gbit both describe the network link; use one of them");
  if (!args.link.empty()) job.parallel.link = args.link;
  if (args.gbit > 0) job.parallel.link = fmt::format("{}gbit", args.gbit);
  if (args.latency_us >= 0) {
    if (args.gbit <= 0) return error(Code::kInvalid, "[plan] --latency-us needs --gbit; or use --link");
    job.parallel.link += fmt::format(",{}us", args.latency_us);
  }
  job::Job checked = job;
  if (checked.data.path.empty()) checked.data.path = ".";  // a plan can be made without the data
  return job::check_job(checked);
}

Status run(const PlanArgs& args) {
  const auto change = [&args](job::Job& job) { return apply(args, job); };
  TR_ASSIGN_OR_RETURN(const InspectedModel found, load_inspected(args.model, change));
  const job::Job& job = found.job;
  runtime::RealOptions real;
  real.name = "plan";
  const auto rt = runtime::make_real_runtime(real);
  cost::Rates rates = *plan_options(*rt, job).rates;
  if (args.cores > 0) rates.machine.cores = args.cores;
  if (args.gflops_per_core > 0) rates.machine.flops_per_second_per_core = args.gflops_per_core * 1e9;
  const prepare::PrepareOptions options = plan_options(job, rates);
  TR_ASSIGN_OR_RETURN(const prepare::PlanReport report,
                      prepare::report_plan(job, found.input.input, options));
  if (!args.json) {
    print_text(headline(found) + "\n" + prepare::to_text(report));
    return {};
  }
  Json json = prepare::to_json(report);
  json.update(headline_json(found));
  print_text(json.dump(2) + "\n");
  return {};
}

}  // namespace

std::function<int()> add_plan(Options& app) {
  auto args = std::make_shared<PlanArgs>();
  add_inspect_source(app, args->model);
  app.add_option("--workers", args->workers, "Number of workers (parallel.workers)")
      ->check(integer_in(1, 65536));
  app.add_option("--mesh", args->mesh, "Mesh of the workers, such as data=2,model=4 (parallel.mesh)");
  app.add_option("--servers", args->servers, "Number of parameter servers (parallel.servers)")
      ->check(integer_in(0, 65536));
  app.add_option("--link", args->link,
                 "Network link between the workers, such as 1gbit,50us (parallel.link)");
  app.add_option("--gbit", args->gbit, "Bandwidth of the link in Gbit/s, instead of --link")
      ->check(above_zero());
  app.add_option("--latency-us", args->latency_us, "Latency of the link in microseconds, with --gbit")
      ->check(zero_or_more());
  app.add_option("--cores", args->cores,
                 "Cores per worker. Default: the cores of this host divided by the workers")
      ->check(integer_in(1, 1024));
  app.add_option("--gflops", args->gflops_per_core, "GFLOP/s per core. Default: as calibrated")
      ->check(above_zero());
  app.add_flag("--json", args->json, "As JSON");
  return [args] {
    const Status status = run(*args);
    return status.ok() ? kExitOk : print_error(status);
  };
}

}  // namespace trireme::cli
