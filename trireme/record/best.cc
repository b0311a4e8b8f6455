#include "trireme/record/best.h"

#include <cmath>

#include "trireme/base/json_numbers.h"

namespace trireme::record {

bool is_better(model::ModelTask task, double loss, double accuracy, const Best& than) {
  if (!std::isfinite(loss)) return false;
  if (than.step < 0) return true;
  if (task == model::ModelTask::kClassify && accuracy != than.accuracy) return accuracy > than.accuracy;
  return loss < than.loss;
}

bool take_evaluation(Best& best, model::ModelTask task, std::int64_t step, engine::Part part, double loss,
                     double accuracy) {
  if (!is_better(task, loss, accuracy, best)) {
    ++best.since;
    return false;
  }
  best = {step, part, loss, accuracy, 0};
  return true;
}

Json to_json(const Best& best) {
  return {{"step", best.step},
          {"part", engine::part_name(best.part)},
          {"loss", best.loss},
          {"accuracy", best.accuracy},
          {"since", best.since}};
}

Result<Best> best_from_json(const Json& json) {
  Best best;
  TR_ASSIGN_OR_RETURN(best.step, json_get_whole<std::int64_t>(json, "step"));
  TR_ASSIGN_OR_RETURN(const std::string part, json_get<std::string>(json, "part"));
  TR_ASSIGN_OR_RETURN(best.part, engine::parse_part(part));
  TR_ASSIGN_OR_RETURN(best.loss, json_get<double>(json, "loss"));
  TR_ASSIGN_OR_RETURN(best.accuracy, json_get<double>(json, "accuracy"));
  TR_ASSIGN_OR_RETURN(best.since, json_get_whole<std::int64_t>(json, "since"));
  return best;
}

}  // namespace trireme::record
