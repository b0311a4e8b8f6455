// zb-h2 - zb-h1 that also fills the wait for the first backward, with twice as many micro-batches. Stage s
// then computes W 2 s micro-batches later. Stages begin and end one after the other, by a forward each, so
// that steps fit into each other without a wait.
#include "trireme/parallel/pipeline/alternating.h"

namespace trireme::parallel {
namespace {

StageActions build(const TimetableSpec& spec, int stage) {
  return alternate(spec, stage, {.warmup = 2 * (spec.stages - stage) - 1, .delay = 2 * stage},
                   whole_step(spec));
}
int in_flight(const TimetableSpec& spec, int) { return std::min(spec.micro_batches, 2 * spec.stages - 1); }

std::optional<double> bubble(const TimetableSpec& spec, const PhaseTimes& t) {
  const bool fits = t.weights <= t.forward && 2 * t.weights <= t.forward + t.backward;
  if (!fits || spec.micro_batches < 2 * spec.stages - 1) return {};
  return (spec.stages - 1) * (t.forward + t.backward - 2 * t.weights);
}

}  // namespace

extern const TimetableRow kZbH2{
    .name = "zb-h2",
    .doc = "No waits where F, B and W take the same time; activations of up to twice as many micro-batches.",
    .paper = "Qi et al. 2024, Zero Bubble Pipeline Parallelism",
    .is_synchronous = true,
    .splits_weights = true,
    .applicable = one_virtual_stage,
    .build = build,
    .in_flight = in_flight,
    .receives_ahead = 0,
    .weight_versions = one_version,
    .version_read = first_version,
    .update_every = whole_step,
    .bubble_seconds = bubble};

}  // namespace trireme::parallel
