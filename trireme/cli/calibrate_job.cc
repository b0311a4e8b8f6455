#include "trireme/cli/calibrate_job.h"

#include "trireme/cli/number_checks.h"
#include "trireme/cli/plan_options.h"
#include "trireme/job/roles.h"
#include "trireme/lower/kernel_cache.h"
#include "trireme/prepare/measured_kernels.h"

namespace trireme::cli {
namespace {

using measure::Places;
using runtime::Task;

Status apply(const CalibrateJobArgs& args, job::Job& job) {
  if (args.workers > 0) job.parallel.workers = args.workers;
  if (!args.mesh.empty()) job.parallel.mesh = args.mesh;
  job::take_workers_of_mesh(job, args.workers > 0);
  job::Job checked = job;
  if (checked.data.path.empty()) checked.data.path = ".";  // times do not depend on the data
  return job::check_job(checked);
}

// As training begins: with the kernels that are fastest here.
Task<void> choose_kernels(runtime::Runtime& rt, const job::Job& job,
                          std::shared_ptr<const prepare::Prepared> first, Result<plan::Plan>& out) {
  out = first->plan;
  const std::optional<std::string> cache = places().kernel_cache;
  if (first->stages != nullptr || !cache || !prepare::may_measure_kernels(job, rt)) co_return;
  out = co_await prepare::with_measured_kernels(rt, std::move(first), *cache);
}

Task<void> read_machine(runtime::Runtime& rt, std::string& out) { out = co_await lower::machine_text(rt); }

Result<Places> places_of(runtime::RealRuntime& rt, const InspectedModel& model,
                         prepare::PrepareOptions options) {
  options.stages = job::stages_of(model.job);
  TR_ASSIGN_OR_RETURN(Places found, measure::prepare_places(model.job, model.input.input, options));
  Result<plan::Plan> plan = Status(Code::kInternal, "[calibrate] no kernels were chosen");
  rt.run(choose_kernels(rt, model.job, found[0], plan));
  TR_RETURN_IF_ERROR(plan.status());
  if (plan->kernels == found[0]->plan.kernels) return found;
  options.fixed = std::make_shared<const plan::Plan>(std::move(*plan));
  return measure::prepare_places(model.job, model.input.input, options);
}

}  // namespace

void add_calibrate_job(Options& app, CalibrateJobArgs& args) {
  add_inspect_source(app, args.model);
  app.add_option("--workers", args.workers, "Number of workers of the job (parallel.workers)")
      ->check(integer_in(1, 65536));
  app.add_option("--mesh", args.mesh, "Mesh of the workers, such as data=2,stage=2 (parallel.mesh)");
  app.add_flag("--again", args.again, "Measure what the job needs even where it is known");
}

Result<JobCalibration> calibrate_job(runtime::RealRuntime& rt, const CalibrateJobArgs& args,
                                     const std::function<void(const std::string&)>& doing,
                                     cost::Calibration& calibration) {
  JobCalibration out;
  TR_ASSIGN_OR_RETURN(out.model, load_inspected(args.model, [&](job::Job& job) { return apply(args, job); }));
  const job::Job& job = out.model.job;
  const cost::Rates rates = start::make_rates(&calibration, job, rate_source(job));
  doing("preparing the graphs ...");
  TR_ASSIGN_OR_RETURN(const Places found, places_of(rt, out.model, plan_options(job, rates)));
  rt.run(read_machine(rt, calibration.op_times.processor));
  measure::OpTimesOptions options;
  options.at_once = measure::runs_at_once(*found[0], rates);
  options.again = args.again;
  options.doing = doing;
  if (args.quick) {
    options.most_runs = options.least_runs;
    options.enough = 0;
  }
  TR_ASSIGN_OR_RETURN(out.report,
                      measure::measure_op_times(found, options, rates.machine, calibration.op_times));
  return out;
}

std::string to_text(const JobCalibration& job) {
  const measure::OpTimesReport& r = job.report;
  std::string text = headline(job.model);
  text += fmt::format("{} different nodes: {} measured now in {}, {} known before; {} at once, {} each\n",
                      r.nodes, r.measured, format_duration(from_seconds(r.seconds)), r.known,
                      r.at_once == 1 ? "1 run" : fmt::format("{} runs", r.at_once),
                      r.threads == 1 ? "1 thread" : fmt::format("{} threads", r.threads));
  if (!r.families.empty())
    text += fmt::format("\n{:<28}{:>8}{:>14}{:>22}\n", "op", "nodes", "a call each", "times the roofline");
  for (const cost::FamilyEfficiency& f : r.families)
    text += fmt::format("{:<28}{:>8}{:>14}{:>22.2f}\n", f.family, f.entries,
                        format_duration(from_seconds(f.seconds)), f.efficiency);
  if (!r.unsteady.empty())
    text += fmt::format(
        "{} of the nodes varied by more than {:.0f} %; what was known of them before stands; calibrate with "
        "--again when the host is idle\n",
        r.unsteady.size(), 100 * measure::kSteady);
  return text;
}

Json to_json(const JobCalibration& job) {
  const measure::OpTimesReport& r = job.report;
  Json families = Json::array();
  for (const cost::FamilyEfficiency& f : r.families)
    families.push_back({{"op", f.family},
                        {"nodes", f.entries},
                        {"seconds", f.seconds},
                        {"times_the_roofline", f.efficiency}});
  Json json = {{"at_once", r.at_once}, {"threads", r.threads},
               {"nodes", r.nodes},     {"measured", r.measured},
               {"known", r.known},     {"unsteady", r.unsteady},
               {"seconds", r.seconds}, {"families", std::move(families)}};
  json.update(headline_json(job.model));
  return json;
}

}  // namespace trireme::cli
