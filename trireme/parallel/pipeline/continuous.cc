#include "trireme/parallel/pipeline/continuous.h"

#include <algorithm>
#include <limits>

namespace trireme::parallel {

int places_of_run(const TimetableSpec& spec, const TimetableRow& row, int stage) {
  TimetableSpec endless = spec;
  endless.micro_batches = std::numeric_limits<int>::max();
  return row.in_flight(endless, stage);
}

std::int64_t steps_ahead(const TimetableSpec& spec, const TimetableRow& row, int stage) {
  const std::int64_t more = places_of_run(spec, row, stage) - 1, every = row.update_every(spec);
  return (more + every - 1) / every;
}

StageActions actions_of_step(const TimetableSpec& spec, const TimetableRow& row, int stage, std::int64_t step,
                             std::int64_t steps) {
  const std::int64_t every = row.update_every(spec), places = places_of_run(spec, row, stage);
  const std::int64_t first = step * every, end = steps * every;
  std::int64_t next = step == 0 ? 0 : std::min(end, first + places - 1);  // to go forward
  StageActions actions;
  const auto add = [&](Phase phase, std::int64_t micro_batch) {
    actions.push_back({phase, static_cast<int>(micro_batch), stage});
  };
  for (std::int64_t m = first; m < first + every; ++m) {
    while (next < std::min(end, m + places)) add(Phase::kForward, next++);
    add(Phase::kBackward, m);
    add(Phase::kWeights, m);
  }
  add(Phase::kUpdate, first + every - 1);
  return actions;
}

}  // namespace trireme::parallel
