// gpipe - all forwards, then all backwards. Backwards go in ascending order too, not as in the paper's
// figure, since gradients are added in the order of micro-batches.
#include "trireme/parallel/pipeline/alternating.h"

namespace trireme::parallel {
namespace {

StageActions build(const TimetableSpec& spec, int stage) {
  return alternate(spec, stage, {.warmup = spec.micro_batches}, whole_step(spec));
}
int in_flight(const TimetableSpec& spec, int) { return spec.micro_batches; }

}  // namespace

extern const TimetableRow kGpipe{
    .name = "gpipe",
    .doc = "All forwards, then all backwards: simple, and keeps activations of every micro-batch.",
    .paper = "Huang et al. 2019, GPipe",
    .is_synchronous = true,
    .splits_weights = false,
    .applicable = one_virtual_stage,
    .build = build,
    .in_flight = in_flight,
    .receives_ahead = 0,
    .weight_versions = one_version,
    .version_read = first_version,
    .update_every = whole_step,
    .bubble_seconds = fill_and_drain};

}  // namespace trireme::parallel
