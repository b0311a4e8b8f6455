#include "trireme/train/step_totals.h"

#include "trireme/prepare/stages.h"

namespace trireme::train {

void StepTotals::add(const engine::StepOutput& out, TimeNs step_ns) {
  compute_ns_ += out.compute_ns;
  exposed_ns_ += out.exposed_ns;
  axis_ns_ += out.axis_ns;
  data_ns_ += out.data_ns;
  kept_bytes_ = out.kept_bytes;
  for (const auto& [age, micro_batches] : out.ages) ages_[age] += micro_batches;
  all_.busy_ns += out.busy_ns;
  all_.step_ns += step_ns;
  ++all_.steps;
  if (all_.steps == 1 || all_.steps == kWarmSteps) first_ = all_;
}

record::StageShare StepTotals::share_of_stage(int stage) const {
  Stepped sum = all_;
  if (all_.steps > first_.steps) {
    sum.busy_ns -= first_.busy_ns;
    sum.step_ns -= first_.step_ns;
    sum.steps -= first_.steps;
  }
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, sum.steps));
  return {stage, to_seconds(sum.busy_ns) / steps, to_seconds(sum.step_ns) / steps,
          static_cast<double>(kept_bytes_)};
}

namespace {

record::PipelineReport describe_pipeline(const prepare::Prepared& prepared) {
  const parallel::TimetableSpec& spec = prepared.stages->timetable;
  record::PipelineReport report;
  report.kind = spec.kind;
  report.stages = spec.stages;
  report.virtual_stages = spec.virtual_stages;
  report.segments = prepared.plan.segments;
  report.micro_batches = spec.micro_batches;
  report.predicted_bubble_fraction = prepared.plan.prediction.bubble_fraction;
  const Result<const parallel::TimetableRow*> row = parallel::find_timetable_row(spec.kind);
  parallel::TimetableSpec run = spec;
  if (!prepared.stages->is_synchronous) run.micro_batches *= spec.stages + 1;  // without an end
  for (int stage = 0; row.ok() && stage < spec.stages; ++stage)
    report.weight_versions.push_back((*row)->weight_versions(run, stage));
  return report;
}

}  // namespace

runtime::Task<Result<record::PipelineReport>> report_stages(runtime::Runtime& rt, comm::Group& group,
                                                            const prepare::Prepared& prepared,
                                                            const StepTotals& totals) {
  record::PipelineReport report = describe_pipeline(prepared);
  report.own = totals.share_of_stage(prepared.stages->stage);
  TR_CO_ASSIGN_OR_RETURN(std::vector<record::StageShare> all,
                         co_await record::gather_stages(rt, group, report.own));
  take_stages(std::move(all), report);
  co_return report;
}

}  // namespace trireme::train
