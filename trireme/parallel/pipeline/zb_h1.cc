// zb-h1 - 1f1b in which stage s computes W s micro-batches later: gradients for the stage before leave
// without waiting for W, and W fills what was the wait for the last backwards. No stage has more
// micro-batches in flight than the first one of 1f1b.
#include "trireme/parallel/pipeline/alternating.h"

namespace trireme::parallel {
namespace {

StageActions build(const TimetableSpec& spec, int stage) {
  return alternate(spec, stage, {.warmup = spec.stages - stage, .delay = stage}, whole_step(spec));
}
int in_flight(const TimetableSpec& spec, int) { return std::min(spec.micro_batches, spec.stages); }

std::optional<double> bubble(const TimetableSpec& spec, const PhaseTimes& t) {
  // A longer W delays the forwards that stages behind wait for.
  if (t.weights > t.forward || spec.micro_batches < spec.stages) return {};
  return (spec.stages - 1) * (t.forward + t.backward - t.weights);
}

}  // namespace

extern const TimetableRow kZbH1{
    .name = "zb-h1",
    .doc =
        "1f1b with later gradients of weights: a third of its waits, as many activations as its first stage.",
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
