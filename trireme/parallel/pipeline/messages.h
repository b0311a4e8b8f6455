// What actions of a timetable tell each other: activations go to the next virtual stage, gradients to the one
// before.
#pragma once

#include "trireme/parallel/pipeline/timetable.h"

namespace trireme::parallel {

inline constexpr int kNoVirtualStage = -1;

// A message between virtual stages. The two may lie on the same stage, which then sends nothing.
struct StageMessage {
  bool is_gradient = false;
  int micro_batch = 0;
  int from = kNoVirtualStage, to = kNoVirtualStage;
  bool exists() const { return from != kNoVirtualStage; }
  friend bool operator==(const StageMessage&, const StageMessage&) = default;
};

// What an action waits for.
inline StageMessage awaited_by(const TimetableSpec& spec, const TimetableAction& a) {
  const int v = a.virtual_stage;
  if (a.phase == Phase::kForward && v > 0) return {false, a.micro_batch, v - 1, v};
  if (a.phase == Phase::kBackward && v + 1 < spec.chain()) return {true, a.micro_batch, v + 1, v};
  return {};
}
// What leaves when an action is done.
inline StageMessage sent_by(const TimetableSpec& spec, const TimetableRow& row, const TimetableAction& a) {
  const int v = a.virtual_stage;
  if (a.phase == Phase::kForward && v + 1 < spec.chain()) return {false, a.micro_batch, v, v + 1};
  if (a.phase == (row.splits_weights ? Phase::kBackward : Phase::kWeights) && v > 0)
    return {true, a.micro_batch, v, v - 1};
  return {};
}

// Two links leave a stage: one for activations, one for gradients. A link has one receiver.
inline std::size_t link_of(const TimetableSpec& spec, const StageMessage& m) {
  return static_cast<std::size_t>(2 * spec.stage_of(m.from) + (m.is_gradient ? 1 : 0));
}

// Place of a pair of micro-batch and virtual stage in an array of all.
inline std::size_t place_of(const TimetableSpec& spec, int micro_batch, int virtual_stage) {
  return static_cast<std::size_t>(virtual_stage) * static_cast<std::size_t>(spec.micro_batches) +
         static_cast<std::size_t>(micro_batch);
}
inline std::size_t num_places(const TimetableSpec& spec) { return place_of(spec, 0, spec.chain()); }

}  // namespace trireme::parallel
