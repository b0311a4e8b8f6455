#include "trireme/parallel/pipeline/alternating.h"

namespace trireme::parallel {

ActionWriter::ActionWriter(const TimetableSpec& spec, int stage, int update_every)
    : spec_(spec), stage_(stage), update_every_(update_every) {
  const auto per_phase = static_cast<std::size_t>(spec.micro_batches) * spec.virtual_stages;
  actions_.reserve(3 * per_phase + per_phase / update_every + 1);
}

void ActionWriter::add(Phase phase, int micro_batch, int chunk) {
  actions_.push_back({phase, micro_batch, chunk * spec_.stages + stage_});
}

void ActionWriter::weights(int micro_batch, int chunk) {
  add(Phase::kWeights, micro_batch, chunk);
  const bool is_last = micro_batch == spec_.micro_batches - 1;
  if (update_every_ < spec_.micro_batches && (is_last || (micro_batch + 1) % update_every_ == 0))
    add(Phase::kUpdate, micro_batch, chunk);
}

StageActions ActionWriter::done() {
  for (int chunk = 0; chunk < spec_.virtual_stages && update_every_ >= spec_.micro_batches; ++chunk)
    add(Phase::kUpdate, spec_.micro_batches - 1, chunk);
  return std::move(actions_);
}

StageActions alternate(const TimetableSpec& spec, int stage, Alternation order, int update_every) {
  ActionWriter writer(spec, stage, update_every);
  int next = 0;
  for (; next < std::min(order.warmup, spec.micro_batches); ++next) writer.forward(next);
  for (int m = 0; m < spec.micro_batches; ++m) {
    writer.backward(m);
    // W before the next F: its slot is free then.
    if (m >= order.delay) writer.weights(m - order.delay);
    if (next < spec.micro_batches) writer.forward(next++);
  }
  for (int m = std::max(0, spec.micro_batches - order.delay); m < spec.micro_batches; ++m) writer.weights(m);
  return writer.done();
}

Status one_virtual_stage(const TimetableSpec& spec) {
  if (spec.virtual_stages == 1) return {};
  return error(
      Code::kInvalid,
      "[pipeline] timetable '{}' has one virtual stage per stage: got {}, expected 1; use interleaved",
      spec.kind, spec.virtual_stages);
}

}  // namespace trireme::parallel
