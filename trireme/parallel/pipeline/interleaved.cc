// interleaved - every stage has several pieces (chunks) of the model, which take turns with groups of as many
// micro-batches as there are stages.
//
// Forwards of a stage are numbered k = 0 .. micro_batches * chunks - 1: the first `stages` are micro-batches
// 0 .. stages-1 at chunk 0, the next ones the same at chunk 1, and after the last chunk come the next
// micro-batches. Backwards are numbered alike, from the last chunk to the first. The first backward waits for
// forwards of all chunks and for those that fill the stages behind: 2 (stages - stage - 1) +
// (chunks - 1) stages forwards come before backwards and forwards alternate.
//
// The chain goes around, so a stage that can receive nothing ahead waits for a slot until its neighbour takes
// a gradient, while that one waits for it in the same way. One message ahead per link is enough.
//
// A last group with fewer micro-batches would leave every chunk waiting for stages that have nothing to do,
// and neighbours would disagree about the order; so micro-batches have to be a multiple of stages.
#include "trireme/parallel/pipeline/alternating.h"

namespace trireme::parallel {
namespace {

struct Numbered {
  int micro_batch, chunk;
};
Numbered forward_at(const TimetableSpec& spec, int k) {
  const int in_group = k % spec.chain();
  return {k / spec.chain() * spec.stages + k % spec.stages, in_group / spec.stages};
}
Numbered backward_at(const TimetableSpec& spec, int k) {
  const Numbered n = forward_at(spec, k);
  return {n.micro_batch, spec.virtual_stages - 1 - n.chunk};
}

// Forwards before the first one that a backward follows. With one chunk the backward of a micro-batch comes
// sooner: that is 1f1b.
int warmup(const TimetableSpec& spec, int stage) {
  const int behind = spec.stages - stage - 1;
  return spec.virtual_stages == 1 ? behind : 2 * behind + (spec.virtual_stages - 1) * spec.stages;
}
int in_flight(const TimetableSpec& spec, int stage) {
  return std::min(spec.micro_batches * spec.virtual_stages, warmup(spec, stage) + 1);
}

StageActions build(const TimetableSpec& spec, int stage) {
  ActionWriter writer(spec, stage, whole_step(spec));
  const int total = spec.micro_batches * spec.virtual_stages;
  int next = 0;
  const auto forward = [&] {
    const Numbered f = forward_at(spec, next++);
    writer.forward(f.micro_batch, f.chunk);
  };
  while (next < in_flight(spec, stage)) forward();
  for (int k = 0; k < total; ++k) {
    const Numbered b = backward_at(spec, k);
    writer.backward(b.micro_batch, b.chunk);
    writer.weights(b.micro_batch, b.chunk);
    if (next < total) forward();
  }
  return writer.done();
}

Status applicable(const TimetableSpec& spec) {
  const int rest = spec.micro_batches % spec.stages;
  if (rest == 0) return {};
  const int below = spec.micro_batches - rest, above = below + spec.stages;
  return error(Code::kInvalid,
               "[pipeline] timetable 'interleaved' needs micro-batches in groups of {}: got {}, expected a "
               "multiple of {}; the nearest is {}",
               spec.stages, spec.micro_batches, spec.stages,
               below > 0 && rest * 2 < spec.stages ? below : above);
}

}  // namespace

extern const TimetableRow kInterleaved{
    .name = "interleaved",
    .doc = "1f1b with several virtual stages per stage: shorter waits, more messages and activations.",
    .paper = "Narayanan et al. 2021, Efficient large-scale language model training on GPU clusters",
    .is_synchronous = true,
    .splits_weights = false,
    .applicable = applicable,
    .build = build,
    .in_flight = in_flight,
    .receives_ahead = 1,
    .weight_versions = one_version,
    .version_read = first_version,
    .update_every = whole_step,
    .bubble_seconds = fill_and_drain};  // of virtual stages: 1 / virtual_stages of that of stages

}  // namespace trireme::parallel
