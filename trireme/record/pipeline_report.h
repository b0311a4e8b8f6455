// PipelineReport: what a run says of the stages of its pipeline.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/comm/group.h"

namespace trireme::record {

// What one rank knows: means over the steps that were timed.
struct StageShare {
  int stage = 0;
  double busy_seconds = 0;  // of a step: phases of micro-batches, and updates
  double step_seconds = 0;
  double kept_bytes = 0;  // by micro-batches in flight, as allocated
};

struct PipelineReport {
  std::string kind;  // of the timetable
  int stages = 1, virtual_stages = 1, segments = 1, micro_batches = 1;
  double predicted_bubble_fraction = 0;
  std::vector<int> weight_versions;  // per stage
  StageShare own;                    // of this rank
  std::vector<StageShare> of_ranks;  // of all ranks; empty: nobody has told
  double step_seconds = 0;           // the following are empty then, and this is 0
  std::vector<double> busy_seconds;  // per stage: those of its slowest rank
  std::vector<double> kept_bytes;    // per stage: those of the rank with most
  int slow_stage = -1;               // busy for clearly longer than the others; -1: none

  // The part of a step during which the stages do not compute.
  double bubble_fraction() const;
};

// The same of one rank.
double bubble_fraction(const StageShare& share);
// A stage that is busy for more than 1.25 times the median of the others; the slowest of several; -1: none.
int find_slow_stage(const std::vector<double>& busy_seconds);

// Takes what the ranks know into the report.
void take_stages(std::vector<StageShare> of_ranks, PipelineReport& report);
// Everybody's share, in rank order, on every rank of `group`. All ranks call it, once. Empty on a phantom
// Runtime, where no numbers travel.
runtime::Task<Result<std::vector<StageShare>>> gather_stages(runtime::Runtime& rt, comm::Group& group,
                                                             StageShare mine);

// Adds its fields to a summary, and to its workers where it lists them.
void add_to_json(const PipelineReport& report, Json& summary);

}  // namespace trireme::record
