#include "trireme/record/position.h"

#include "trireme/base/json_numbers.h"

namespace trireme::record {

Json to_json(const Position& p) {
  return {{"steps", p.steps},
          {"batches", p.batches},
          {"samples", p.samples},
          {"samples_before", p.samples_before},
          {"skipped", p.skipped},
          {"reached_target", p.reached_target},
          {"owes_evaluation", p.owes_evaluation},
          {"losses", p.losses.to_json()},
          {"stopped_early", p.stopped_early},
          {"best", to_json(p.best)}};
}

Result<Position> position_from_json(const Json& json) {
  Position p;
  TR_ASSIGN_OR_RETURN(p.steps, json_get<std::int64_t>(json, "steps"));
  TR_ASSIGN_OR_RETURN(p.batches, json_get<std::int64_t>(json, "batches"));
  TR_ASSIGN_OR_RETURN(p.samples, json_get<std::int64_t>(json, "samples"));
  TR_ASSIGN_OR_RETURN(p.samples_before, json_get<std::int64_t>(json, "samples_before"));
  TR_ASSIGN_OR_RETURN(p.skipped, json_get<std::int64_t>(json, "skipped"));
  TR_ASSIGN_OR_RETURN(p.reached_target, json_get<bool>(json, "reached_target"));
  TR_ASSIGN_OR_RETURN(p.owes_evaluation, json_get<bool>(json, "owes_evaluation"));
  if (json.contains("losses")) {
    TR_ASSIGN_OR_RETURN(p.losses, LossTrend::from_json(json["losses"]));
  }
  if (json.contains("best")) {  // older checkpoints have none
    TR_ASSIGN_OR_RETURN(p.stopped_early, json_get<bool>(json, "stopped_early"));
    TR_ASSIGN_OR_RETURN(const Json best, json_get<Json>(json, "best"));
    TR_ASSIGN_OR_RETURN(p.best, best_from_json(best));
  }
  return p;
}

}  // namespace trireme::record
