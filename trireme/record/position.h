// Position: how far a run has come.
#pragma once

#include "trireme/base/json.h"
#include "trireme/record/best.h"
#include "trireme/record/loss_trend.h"

namespace trireme::record {

// What a checkpoint holds besides tensors and the data cursor.
struct Position {
  std::int64_t steps = 0;            // updates, skipped ones included
  std::int64_t batches = 0;          // of train.batch samples; more than steps where the batch has grown
  std::int64_t samples = 0;          // where the schedule stands
  std::int64_t samples_before = -1;  // before the last step that was not skipped; -1: none
  std::int64_t skipped = 0;          // steps that changed nothing, since something was not a number
  bool reached_target = false;       // train.target_accuracy
  bool stopped_early = false;        // train.patience
  bool owes_evaluation = false;      // a stop came between a step and the evaluation due after it
  LossTrend losses;                  // of steps that were not skipped; unknown in older checkpoints
  Best best = {};

  bool has_ended() const { return reached_target || stopped_early; }  // before its last step
};
Json to_json(const Position& position);
Result<Position> position_from_json(const Json& json);

}  // namespace trireme::record
