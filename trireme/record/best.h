// The best evaluation of a run so far. Its checkpoint is kept (train.keep_best), and a run without a better
// one for long enough ends (train.patience).
#pragma once

#include <cstdint>

#include "trireme/base/json.h"
#include "trireme/engine/evaluator.h"
#include "trireme/model/zoo.h"

namespace trireme::record {

struct Best {
  std::int64_t step = -1;                   // steps completed; -1: nothing was evaluated yet
  engine::Part part = engine::Part::kTest;  // by whose samples
  double loss = 0, accuracy = 0;
  std::int64_t since = 0;  // evaluations after it that were not better
};

// Classifiers: higher accuracy, or the same and lower loss; other tasks: lower loss. A loss that is not a
// number is no better than any.
bool is_better(model::ModelTask task, double loss, double accuracy, const Best& than);
// Counts an evaluation; true: it is the best one.
bool take_evaluation(Best& best, model::ModelTask task, std::int64_t step, engine::Part part, double loss,
                     double accuracy);

Json to_json(const Best& best);
Result<Best> best_from_json(const Json& json);

}  // namespace trireme::record
