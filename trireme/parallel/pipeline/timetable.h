// Timetable: in which order the stages of a pipeline compute the micro-batches of a step. Pure.
//
// A model is a chain of stages * virtual_stages virtual stages, numbered from 0. Number v lives on stage
// v % stages, so that its neighbours in the chain live on neighbouring stages (the last stage's next is the
// first one). Every micro-batch goes forward through the chain and back. A stage computes one action at a
// time, in the order of its timetable; a timetable is the same in every step.
//
// One definition is run, verified (verify.h), priced (price.h) and drawn (draw.h). The rows are in table.cc,
// each in a file of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/status.h"

namespace trireme::parallel {

enum class Phase : std::uint8_t {
  kForward,   // F
  kBackward,  // B: gradients of what came in
  kWeights,   // W: gradients of weights, added to those of the micro-batches before
  kUpdate,    // U
};
char phase_letter(Phase phase);

struct TimetableSpec {
  std::string kind = "1f1b";  // a row of the table
  int stages = 1;
  int virtual_stages = 1;  // per stage
  int micro_batches = 1;
  // 2bw: micro-batches whose gradients are added up for an update; 0: as many as stages.
  int update_every = 0;
  // async: all stages read the same version of the weights for a micro-batch.
  bool vertical_sync = false;
  // async: B and W read the weights that F has read, of which older versions are kept. Else F, B and W each
  // read the newest.
  bool weight_stashing = true;

  int chain() const { return stages * virtual_stages; }
  int stage_of(int virtual_stage) const { return virtual_stage % stages; }
};

struct TimetableAction {
  Phase phase = Phase::kForward;
  int micro_batch = 0;    // of an update: the last one whose gradient it applies
  int virtual_stage = 0;  // its number along the chain
  friend bool operator==(const TimetableAction&, const TimetableAction&) = default;
  std::string to_text() const;  // "F of micro-batch 3 at virtual stage 5"
};
using StageActions = std::vector<TimetableAction>;

// Seconds of the phases of a virtual stage.
struct PhaseTimes {
  double forward = 0, backward = 0, weights = 0, update = 0;
  double of(Phase phase) const;
};

// A row of table.cc. The functions expect a spec that check_timetable accepts.
struct TimetableRow {
  const char* name;
  const char* doc;
  const char* paper;
  // Every step ends with one update per virtual stage, and all its micro-batches have read the same weights.
  bool is_synchronous;
  // W may run long after its B. Elsewhere W follows B directly, the two are one program, and the gradient
  // for the stage before leaves after W.
  bool splits_weights;
  Status (*applicable)(const TimetableSpec& spec);  // beyond what any spec must satisfy; null: always
  StageActions (*build)(const TimetableSpec& spec, int stage);
  // The most pairs of micro-batch and own virtual stage whose F has begun and whose W has not ended: slots
  // for activations that a stage needs.
  int (*in_flight)(const TimetableSpec& spec, int stage);
  // Messages per link that a stage has to receive before it comes to the actions that wait for them, lest
  // stages wait for each other for ever.
  int receives_ahead;
  // Versions of the weights of a virtual stage that must exist at a time.
  int (*weight_versions)(const TimetableSpec& spec, int stage);
  // F of the micro-batch reads the weights after so many updates; so do B and W, with weight stashing.
  int (*version_read)(const TimetableSpec& spec, int stage, int micro_batch);
  // Micro-batches between two updates.
  int (*update_every)(const TimetableSpec& spec);
  // How much longer a step takes than a stage computes, where all virtual stages take the same `times` and
  // messages no time; none: the paper's formula does not hold for these times and numbers.
  std::optional<double> (*bubble_seconds)(const TimetableSpec& spec, const PhaseTimes& times);
};
std::span<const TimetableRow> timetable_table();
// kInvalid tells the nearest names, and all there are.
Result<const TimetableRow*> find_timetable_row(std::string_view name);

// Whether the kind exists and can have these numbers.
Status check_timetable(const TimetableSpec& spec);
// What a stage does in a step. O(own actions).
Result<StageActions> build_timetable(const TimetableSpec& spec, int stage);
// The same for all stages.
Result<std::vector<StageActions>> build_timetables(const TimetableSpec& spec);

}  // namespace trireme::parallel
