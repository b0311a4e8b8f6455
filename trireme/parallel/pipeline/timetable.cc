#include "trireme/parallel/pipeline/timetable.h"

namespace trireme::parallel {
namespace {

// Actions of a phase over all stages: indices of them fit an int with room to spare.
constexpr std::int64_t kMostComputed = 1 << 28;

Status check_numbers(const TimetableSpec& spec) {
  const std::pair<const char*, int> numbers[] = {{"stages", spec.stages},
                                                 {"virtual stages", spec.virtual_stages},
                                                 {"micro-batches", spec.micro_batches}};
  std::int64_t product = 1;
  for (const auto& [what, number] : numbers) {
    if (number < 1) return error(Code::kInvalid, "[pipeline] {}: got {}, expected at least 1", what, number);
    product *= number;
    if (product > kMostComputed)
      return error(
          Code::kInvalid,
          "[pipeline] {} stages x {} virtual stages x {} micro-batches are too many: expected at most "
          "{} in all",
          spec.stages, spec.virtual_stages, spec.micro_batches, kMostComputed);
  }
  return {};
}

}  // namespace

char phase_letter(Phase phase) { return "FBWU"[static_cast<std::size_t>(phase)]; }

std::string TimetableAction::to_text() const {
  return fmt::format("{} of micro-batch {} at virtual stage {}", phase_letter(phase), micro_batch,
                     virtual_stage);
}

double PhaseTimes::of(Phase phase) const {
  switch (phase) {
    case Phase::kForward:
      return forward;
    case Phase::kBackward:
      return backward;
    case Phase::kWeights:
      return weights;
    case Phase::kUpdate:
      return update;
  }
  return 0;
}

Status check_timetable(const TimetableSpec& spec) {
  TR_ASSIGN_OR_RETURN(const TimetableRow* row, find_timetable_row(spec.kind));
  TR_RETURN_IF_ERROR(check_numbers(spec));
  if (spec.update_every < 0 || (spec.update_every > 0 && row->update_every(spec) != spec.update_every))
    return error(
        Code::kInvalid,
        "[pipeline] micro-batches between updates: got {}, expected {} with timetable '{}'; use 2bw for "
        "another number",
        spec.update_every, row->update_every(spec), spec.kind);
  if (spec.vertical_sync && spec.kind != "async")
    return error(Code::kInvalid,
                 "[pipeline] vertical sync with timetable '{}', whose stages read the same version as it is; "
                 "leave it out, or use async",
                 spec.kind);
  if (!spec.weight_stashing && (spec.kind != "async" || spec.vertical_sync))
    return error(Code::kInvalid,
                 "[pipeline] no weight stashing with timetable '{}'{}; leave it out, or use async alone",
                 spec.kind, spec.vertical_sync ? " and vertical sync, whose versions are stashed" : "");
  return row->applicable == nullptr ? Status() : row->applicable(spec);
}

Result<StageActions> build_timetable(const TimetableSpec& spec, int stage) {
  TR_RETURN_IF_ERROR(check_timetable(spec));
  TR_CHECK(stage >= 0 && stage < spec.stages, "stage {} of {}", stage, spec.stages);
  return (*find_timetable_row(spec.kind))->build(spec, stage);
}

Result<std::vector<StageActions>> build_timetables(const TimetableSpec& spec) {
  TR_RETURN_IF_ERROR(check_timetable(spec));
  const TimetableRow* row = *find_timetable_row(spec.kind);
  std::vector<StageActions> stages;
  for (int s = 0; s < spec.stages; ++s) stages.push_back(row->build(spec, s));
  return stages;
}

}  // namespace trireme::parallel
