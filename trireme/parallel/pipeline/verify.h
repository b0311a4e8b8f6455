// Proves the timetables of all stages, without running anything.
#pragma once

#include "trireme/parallel/pipeline/timetable.h"

namespace trireme::parallel {

// Fails when
// - a phase of a micro-batch at a virtual stage is missing, there twice, on a wrong stage, or before the
//   phase that it needs; W of a virtual stage are not in the order of micro-batches, in which gradients are
//   added; an update does not lie between the last W that it applies and the next one;
// - a stage has more micro-batches in flight, or needs more versions of its weights, than the row declares;
// - stages wait for each other in a cycle. A message is sent beside computation, but its send ends only when
//   the receiver has come to the action that waits for it, or as many messages of that link before it as the
//   row declares in `receives_ahead`. A link carries its messages one after the other. The slot of a
//   micro-batch is free when its W is done and its sends have ended, and a stage has as many slots as the row
//   declares. What makes progress under these rules does so when receives start earlier.
Status verify_timetables(const TimetableSpec& spec, std::span<const StageActions> stages);
// The same for the timetables as built.
Status verify_timetable(const TimetableSpec& spec);

}  // namespace trireme::parallel
