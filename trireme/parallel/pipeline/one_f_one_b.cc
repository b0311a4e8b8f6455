// 1f1b - a stage starts as many micro-batches as there are stages from it to the last, then does one backward
// and one forward by turns.
#include "trireme/parallel/pipeline/alternating.h"

namespace trireme::parallel {
namespace {

StageActions build(const TimetableSpec& spec, int stage) {
  return alternate(spec, stage, {.warmup = spec.stages - stage}, whole_step(spec));
}

}  // namespace

extern const TimetableRow kOneFOneB{
    .name = "1f1b",
    .doc = "One forward, one backward by turns: as fast as gpipe, with activations of few micro-batches.",
    .paper = "Narayanan et al. 2019, PipeDream; Narayanan et al. 2021, PipeDream-Flush",
    .is_synchronous = true,
    .splits_weights = false,
    .applicable = one_virtual_stage,
    .build = build,
    .in_flight = stages_left,
    .receives_ahead = 0,
    .weight_versions = one_version,
    .version_read = first_version,
    .update_every = whole_step,
    .bubble_seconds = fill_and_drain};

}  // namespace trireme::parallel
