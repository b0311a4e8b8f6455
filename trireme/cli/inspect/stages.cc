// `trireme inspect stages`: what every stage of a pipeline would compute, hold and send, and what limits its
// steps, by the cost model: what the stage axis of a mesh comes to. Trains nothing.
#include "trireme/base/units.h"
#include "trireme/cli/command.h"
#include "trireme/cli/inspect/parts.h"
#include "trireme/cli/plan_options.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"
#include "trireme/prepare/stage_report.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::cli {
namespace {

using prepare::StageReport;
using prepare::StagesReport;
using prepare::VirtualStageReport;

struct StageArgs {
  InspectSource model;
  std::string mesh;  // empty: as the job says
  bool json = false;
};

Status apply(const StageArgs& args, job::Job& job) {
  const std::string mesh = !args.mesh.empty() || !job.parallel.mesh.empty() ? args.mesh : "stage=2";
  take_mesh(mesh, job);
  TR_ASSIGN_OR_RETURN(const parallel::Mesh found, job::mesh_of(job));
  if (found.size_of(parallel::kStageAxis) > 1) return {};
  return error(
      Code::kInvalid,
      "[inspect] stages: the mesh {} has no stage axis; use --mesh with one, such as data={},stage=2",
      mesh_text(found), found.num_replicas());
}

Result<StagesReport> report_stages(const InspectedModel& found) {
  runtime::RealOptions real;
  real.name = "inspect";
  const auto rt = runtime::make_real_runtime(real);
  prepare::PrepareOptions options = plan_options(*rt, found.job);
  options.stages = job::stages_of(found.job);
  return prepare::report_stages(found.job, found.input.input, options);
}

Json to_json(const parallel::PhaseTimes& t) {
  return {{"F", t.forward}, {"B", t.backward}, {"W", t.weights}};
}

Json to_json(const StageReport& stage, std::size_t number) {
  Json runs = Json::array();
  for (const VirtualStageReport& run : stage.runs)
    runs.push_back({{"virtual_stage", run.number},
                    {"first_layer", run.first_layer},
                    {"last_layer", run.last_layer},
                    {"layers", run.num_layers},
                    {"segments", run.num_segments},
                    {"seconds", to_json(run.seconds)},
                    {"bytes_forward", run.forward_bytes},
                    {"bytes_back", run.back_bytes}});
  return {{"stage", number},
          {"runs", std::move(runs)},
          {"seconds", to_json(stage.seconds())},
          {"state_bytes", stage.state_bytes},
          {"kept_bytes", stage.kept_bytes},
          {"total_bytes", stage.total_bytes},
          {"in_flight", stage.in_flight},
          {"weight_versions", stage.weight_versions},
          {"limit", prepare::name_of(stage.limit)}};
}

Json to_json(const StagesReport& report, const job::Job& job) {
  const parallel::TimetableSpec& spec = report.priced.spec;
  const parallel::TimetablePrice& price = report.priced.price;
  Json stages = Json::array();
  for (std::size_t s = 0; s < report.stages.size(); ++s) stages.push_back(to_json(report.stages[s], s));
  return {{"mesh", job.parallel.mesh},
          {"pipeline", spec.kind},
          {"virtual_stages", spec.virtual_stages},
          {"micro_batches", spec.micro_batches},
          {"segments", job::segments_of(job)},
          {"stages", std::move(stages)},
          {"predicted_step_seconds", price.makespan_seconds},
          {"predicted_bubble_fraction", price.bubble_fraction},
          {"step_seconds_without_links", report.unlinked_seconds},
          {"slowest_stage", report.slowest},
          {"step_seconds_without_memory_limit", report.unlimited_seconds},
          {"limit", prepare::name_of(report.limit())}};
}

std::string milliseconds(double seconds) { return fmt::format("{:.3f} ms", 1e3 * seconds); }
std::string bytes_text(double bytes) {
  return bytes > 0 ? format_bytes(static_cast<std::uint64_t>(bytes)) : std::string("-");
}

std::string limit_text(const StagesReport& report) {
  const double step = report.priced.price.makespan_seconds;
  if (report.limit() == prepare::StageLimit::kMemory)
    return fmt::format(
        "Memory limits: without train.memory_limit other cuts would take {}. Raise it, or use more stages or "
        "micro-batches.\n",
        milliseconds(report.unlimited_seconds));
  if (report.waits_for_links())
    return fmt::format(
        "The links limit: without messages a step would take {}. Cut the model where fewer values pass "
        "(parallel.stage_cuts), or use fewer stages.\n",
        milliseconds(report.unlinked_seconds));
  const auto at = static_cast<std::size_t>(report.slowest);
  const double own = report.priced.price.stages[at].busy_seconds;
  return fmt::format("Stage {} limits: it computes for {} of {}.\n", report.slowest, milliseconds(own),
                     milliseconds(step));
}

std::string to_text(const StagesReport& report, const job::Job& job) {
  const parallel::TimetableSpec& spec = report.priced.spec;
  const parallel::TimetablePrice& price = report.priced.price;
  std::string text =
      fmt::format("Mesh {}, pipeline {}, {} micro-batch{}, {} segments\n\n", job.parallel.mesh, spec.kind,
                  spec.micro_batches, spec.micro_batches == 1 ? "" : "es", job::segments_of(job));
  text += fmt::format("{:<6} {:>10} {:>10} {:>10} {:>11} {:>11} {:>11} {:>11} {:>8}  {}\n", "stage", "F", "B",
                      "W", "forward", "back", "state", "kept", "limit", "layers");
  for (std::size_t s = 0; s < report.stages.size(); ++s) {
    const StageReport& stage = report.stages[s];
    for (std::size_t r = 0; r < stage.runs.size(); ++r) {
      const VirtualStageReport& run = stage.runs[r];
      text += fmt::format("{:<6} {:>10} {:>10} {:>10} {:>11} {:>11} {:>11} {:>11} {:>8}  {}\n",
                          r == 0 ? std::to_string(s) : "", milliseconds(run.seconds.forward),
                          milliseconds(run.seconds.backward), milliseconds(run.seconds.weights),
                          bytes_text(run.forward_bytes), bytes_text(run.back_bytes),
                          r == 0 ? bytes_text(static_cast<double>(stage.state_bytes)) : "",
                          r == 0 ? bytes_text(static_cast<double>(stage.kept_bytes)) : "",
                          r == 0 ? prepare::name_of(stage.limit) : "",
                          run.first_layer == run.last_layer
                              ? run.first_layer
                              : fmt::format("{} .. {}", run.first_layer, run.last_layer));
    }
  }
  text +=
      "  F, B, W and bytes sent to the next and the previous stage: of a micro-batch; state: parameters and "
      "what the\n  optimizer keeps; kept: by the micro-batches in flight; limit: what the stage could use "
      "more of\n\n";
  text += fmt::format("A step takes about {} beside updates, {:.1f} % of it bubble.\n",
                      milliseconds(price.makespan_seconds), 100 * price.bubble_fraction);
  return text + limit_text(report);
}

Status run(const StageArgs& args) {
  TR_ASSIGN_OR_RETURN(const InspectedModel found,
                      load_inspected(args.model, [&](job::Job& job) { return apply(args, job); }));
  TR_ASSIGN_OR_RETURN(const StagesReport report, report_stages(found));
  if (args.json) {
    Json json = to_json(report, found.job);
    json["model"] = headline_json(found);
    print_text(json.dump(2) + "\n");
    return {};
  }
  print_text(headline(found) + "\n" + to_text(report, found.job));
  return {};
}

}  // namespace

std::function<int()> add_inspect_stages(Options& inspect) {
  auto args = std::make_shared<StageArgs>();
  Options* sub = inspect.add_subcommand(
      "stages", "Show what the stages of a pipeline compute, hold and send, and what limits their steps.");
  add_inspect_source(*sub, args->model);
  sub->add_option("--mesh", args->mesh,
                  "Axes and their sizes, stage among them. Default: parallel.mesh, or stage=2");
  sub->add_flag("--json", args->json, "As JSON");
  return [args, sub] {
    if (!sub->parsed()) return kExitOk;
    const Status status = run(*args);
    return status.ok() ? kExitOk : print_error(status);
  };
}

}  // namespace trireme::cli
