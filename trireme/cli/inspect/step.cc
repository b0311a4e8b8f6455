// `trireme inspect step`: one step of a rank as the plan has it, with the times of the cost model. Trains
// nothing.
#include "trireme/cli/command.h"
#include "trireme/cli/inspect/parts.h"
#include "trireme/cli/number_checks.h"
#include "trireme/cli/plan_options.h"
#include "trireme/job/roles.h"
#include "trireme/plan/draw_step.h"
#include "trireme/prepare/make_plan.h"
#include "trireme/prepare/prepare.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::cli {
namespace {

struct StepArgs {
  InspectSource model;
  int workers = 0, rank = 0;
  std::string mesh;
  std::string svg;
  bool json = false;
};

Result<plan::PricedStep> step_of(const StepArgs& args, const InspectedModel& found,
                                 runtime::RealRuntime& rt) {
  const job::Job& job = found.job;
  prepare::PrepareOptions options = plan_options(rt, job);
  const job::Roles roles = job::roles_of(job);
  if (args.rank >= roles.workers)
    return error(Code::kInvalid, "[inspect] --rank: got {}, expected below the {} workers", args.rank,
                 roles.workers);
  TR_ASSIGN_OR_RETURN(const auto prepared, prepare::prepare(job, found.input.input, options));
  TR_ASSIGN_OR_RETURN(const prepare::ParameterCosts costs,
                      prepare::costs_by_parameter(job, options, *prepared));
  TR_ASSIGN_OR_RETURN(const plan::Replicas replicas, prepare::replicas_of(job, prepared->plan, options));
  return plan::price_step(prepared->plan, prepare::step_costs(prepared->plan, costs), replicas, args.rank);
}

runtime::Task<void> write_picture(runtime::Runtime& rt, std::string path, std::string picture,
                                  Status& status) {
  status = co_await rt.files().write_atomic(path, as_bytes(picture));
}

Status run(const StepArgs& args) {
  const auto change = [&args](job::Job& job) {
    if (args.workers > 0) job.parallel.workers = args.workers;
    if (!args.mesh.empty()) job.parallel.mesh = args.mesh;
    job::take_workers_of_mesh(job, args.workers > 0);
    return job::mesh_of(job).status();
  };
  TR_ASSIGN_OR_RETURN(const InspectedModel found, load_inspected(args.model, change));
  runtime::RealOptions real;
  real.name = "inspect";
  const auto rt = runtime::make_real_runtime(real);
  TR_ASSIGN_OR_RETURN(const plan::PricedStep step, step_of(args, found, *rt));
  std::string title = headline(found);
  while (!title.empty() && title.back() == '\n') title.pop_back();
  Status status;
  if (!args.svg.empty())
    rt->run(write_picture(*rt, args.svg, plan::draw_svg(step, "A step: " + title), status));
  TR_RETURN_IF_ERROR(status);
  print_text(args.json ? plan::to_json(step).dump(2) + "\n" : title + "\n\n" + plan::draw_text(step));
  return {};
}

}  // namespace

std::function<int()> add_inspect_step(Options& inspect) {
  auto args = std::make_shared<StepArgs>();
  Options* sub =
      inspect.add_subcommand("step", "Show one step of a worker: what it computes, sums and updates when.");
  add_inspect_source(*sub, args->model);
  sub->add_option("--workers", args->workers, "Number of workers (parallel.workers)")
      ->check(integer_in(1, 65536));
  sub->add_option("--mesh", args->mesh, "Mesh of the workers, such as data=2,model=4 (parallel.mesh)");
  sub->add_option("--rank", args->rank, "Worker to show. Default: 0")->check(zero_or_more());
  sub->add_option("--svg", args->svg, "Write a picture to this file");
  sub->add_flag("--json", args->json, "As JSON");
  return [args, sub] {
    if (!sub->parsed()) return kExitOk;
    const Status status = run(*args);
    return status.ok() ? kExitOk : print_error(status);
  };
}

}  // namespace trireme::cli
