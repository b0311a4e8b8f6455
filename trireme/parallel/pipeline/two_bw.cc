// 2bw - 1f1b that never drains: gradients of a group of micro-batches are added up for an update, and the
// next group still reads the weights before it. All stages read weights that are one update old, and two
// versions are enough as long as a group has as many micro-batches as there are stages: then at most two
// groups are in flight.
#include "trireme/parallel/pipeline/alternating.h"

namespace trireme::parallel {
namespace {

int update_every(const TimetableSpec& spec) {
  return spec.update_every == 0 ? spec.stages : spec.update_every;
}
StageActions build(const TimetableSpec& spec, int stage) {
  return alternate(spec, stage, {.warmup = spec.stages - stage}, update_every(spec));
}
int weight_versions(const TimetableSpec& spec, int) {
  return update_every(spec) < spec.micro_batches ? 2 : 1;
}
int version_read(const TimetableSpec& spec, int, int micro_batch) {
  return std::max(0, micro_batch / update_every(spec) - 1);
}

Status applicable(const TimetableSpec& spec) {
  TR_RETURN_IF_ERROR(one_virtual_stage(spec));
  if (spec.update_every == 0 || spec.update_every >= spec.stages) return {};
  return error(
      Code::kInvalid,
      "[pipeline] timetable '2bw' needs updates after at least as many micro-batches as stages, since "
      "two versions of weights are not enough otherwise: got {}, expected at least {}; use async for "
      "an update after every micro-batch",
      spec.update_every, spec.stages);
}

}  // namespace

extern const TimetableRow kTwoBw{
    .name = "2bw",
    .doc = "async with an update per group of micro-batches: two versions of weights, one update old.",
    .paper = "Narayanan et al. 2021, Memory-efficient pipeline-parallel DNN training",
    .is_synchronous = false,
    .splits_weights = false,
    .applicable = applicable,
    .build = build,
    .in_flight = stages_left,
    .receives_ahead = 0,
    .weight_versions = weight_versions,
    .version_read = version_read,
    .update_every = update_every,
    .bubble_seconds = fill_and_drain};

}  // namespace trireme::parallel
