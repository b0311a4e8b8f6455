// What rows of the table share: writing actions, and the order "one forward, one backward".
#pragma once

#include <algorithm>

#include "trireme/parallel/pipeline/timetable.h"

namespace trireme::parallel {

class ActionWriter {
 public:
  // An update follows the last W of every `update_every` micro-batches.
  ActionWriter(const TimetableSpec& spec, int stage, int update_every);
  void forward(int micro_batch, int chunk = 0) { add(Phase::kForward, micro_batch, chunk); }
  void backward(int micro_batch, int chunk = 0) { add(Phase::kBackward, micro_batch, chunk); }
  void weights(int micro_batch, int chunk = 0);
  // Updates of the whole step come last.
  StageActions done();

 private:
  void add(Phase phase, int micro_batch, int chunk);

  const TimetableSpec& spec_;
  const int stage_, update_every_;
  StageActions actions_;
};

struct Alternation {
  int warmup = 1;  // forwards before the first backward
  int delay = 0;   // W of micro-batch m follows B of micro-batch m + delay
};
// F `warmup` times, then B, W, F by turns until all is done; with one virtual stage per stage.
StageActions alternate(const TimetableSpec& spec, int stage, Alternation order, int update_every);

// Parts of rows.
Status one_virtual_stage(const TimetableSpec& spec);  // kInvalid: there are several per stage
inline int whole_step(const TimetableSpec& spec) { return spec.micro_batches; }
inline int one_version(const TimetableSpec&, int) { return 1; }
inline int first_version(const TimetableSpec&, int, int) { return 0; }
// As many as there are stages from this one to the last.
inline int stages_left(const TimetableSpec& spec, int stage) {
  return std::min(spec.micro_batches, spec.stages - stage);
}
// The first forwards and the last backwards of a chain, seen from a stage.
inline std::optional<double> fill_and_drain(const TimetableSpec& spec, const PhaseTimes& t) {
  return (spec.stages - 1) * (t.forward + t.backward + t.weights);
}

}  // namespace trireme::parallel
