// async - 1f1b that never drains: every micro-batch is followed by an update of its own. A micro-batch reads
// the same weights forward and backward (weight stashing), so stage s keeps a version for each that is in
// flight; its gradients are of weights that are stages - s - 1 updates old. With vertical sync all stages
// read the version that the first one reads, stages - 1 updates old, and keep as many versions as it does.
// Without weight stashing a micro-batch goes back by the newest weights of each stage, which are not those
// that its activations come from: one version is enough, and what is made is no gradient of any weights.
#include "trireme/parallel/pipeline/alternating.h"

namespace trireme::parallel {
namespace {

int update_every(const TimetableSpec&) { return 1; }
StageActions build(const TimetableSpec& spec, int stage) {
  return alternate(spec, stage, {.warmup = spec.stages - stage}, 1);
}
int weight_versions(const TimetableSpec& spec, int stage) {
  return spec.weight_stashing ? stages_left(spec, spec.vertical_sync ? 0 : stage) : 1;
}
int version_read(const TimetableSpec& spec, int stage, int micro_batch) {
  return std::max(0, micro_batch - (spec.stages - (spec.vertical_sync ? 0 : stage) - 1));
}

}  // namespace

extern const TimetableRow kAsync{
    .name = "async",
    .doc = "1f1b without an end of steps: an update after every micro-batch, by gradients of older weights.",
    .paper = "Narayanan et al. 2019, PipeDream",
    .is_synchronous = false,
    .splits_weights = false,
    .applicable = one_virtual_stage,
    .build = build,
    .in_flight = stages_left,
    .receives_ahead = 0,
    .weight_versions = weight_versions,
    .version_read = version_read,
    .update_every = update_every,
    .bubble_seconds = fill_and_drain};

}  // namespace trireme::parallel
