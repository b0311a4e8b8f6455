// What a stage does in a step of a run whose pipeline never drains: timetables of rows that are not
// synchronous, in pieces. Pure.
//
// A step is what one update is made of, and steps follow one another without a break: a stage that is k
// stages from the end has begun k micro-batches more than it has ended, mostly of later steps. All steps
// together are the timetable of all their micro-batches.
#pragma once

#include "trireme/parallel/pipeline/timetable.h"

namespace trireme::parallel {

// Micro-batches are numbered over the run, `spec.micro_batches` is not looked at. 0 <= step < steps; the run
// ends with the last of them, before which nothing more begins.
StageActions actions_of_step(const TimetableSpec& spec, const TimetableRow& row, int stage, std::int64_t step,
                             std::int64_t steps);
// Steps that a stage begins before it has ended the one that it is in.
std::int64_t steps_ahead(const TimetableSpec& spec, const TimetableRow& row, int stage);
// Places for micro-batches that a stage needs, however long the run is.
int places_of_run(const TimetableSpec& spec, const TimetableRow& row, int stage);

}  // namespace trireme::parallel
