// What a timetable costs: a walk over the actions of all stages with the times of each. O(actions).
#pragma once

#include "trireme/parallel/pipeline/timetable.h"

namespace trireme::parallel {

// Seconds, or any other unit.
struct TimetableTimes {
  std::vector<PhaseTimes> phases;  // per virtual stage
  // Per virtual stage but the last: a message of activations to the next one, and of gradients back from it.
  std::vector<double> activations, gradients;

  // The same for all virtual stages and messages.
  static TimetableTimes equal(const TimetableSpec& spec, const PhaseTimes& phases, double message);
};

struct ActionTime {
  double start = 0, end = 0;
};

struct StagePrice {
  double busy_seconds = 0;
  double waiting_seconds = 0;     // between its first and its last action
  int peak_in_flight = 0;         // micro-batches whose F has begun and whose W has not ended
  std::vector<ActionTime> times;  // of its actions
};

// Computation takes turns with nothing but computation: a message leaves when its action is done, takes the
// link to the neighbour for its time, and arrives. A link carries one message at a time, activations and
// gradients do not wait for each other, and what stays on its stage takes no time.
struct TimetablePrice {
  // The longest time that a stage takes from its first action to its last. Steps follow each other so: the
  // next one begins at every stage this much later. Of kinds without steps it is the time for all
  // micro-batches, with those at the beginning and the end during which stages wait.
  double step_seconds = 0;
  double makespan_seconds = 0;  // from the first action of all to the last
  double bubble_fraction = 0;   // 1 - busy / (stages * step_seconds)
  std::vector<StagePrice> stages;
};
// kInternal: the walk comes to no end; verify_timetables says why.
Result<TimetablePrice> walk_timetables(const TimetableSpec& spec, std::span<const StageActions> stages,
                                       const TimetableTimes& times);

struct PricedTimetable {
  TimetableSpec spec;
  std::vector<StageActions> stages;
  TimetablePrice price;
};
// Timetables as built. kInvalid: the spec, or a time that is missing, negative or no number.
Result<PricedTimetable> price_timetable(const TimetableSpec& spec, const TimetableTimes& times);

}  // namespace trireme::parallel
