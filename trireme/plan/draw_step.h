// A step as a picture: what a rank does when, by the cost model. Text for a terminal, SVG for a page.
#pragma once

#include <string>
#include <string_view>

#include "trireme/base/json.h"
#include "trireme/plan/replica_model.h"
#include "trireme/plan/step_program.h"

namespace trireme::plan {

// A program with what its actions take and when they happen.
struct PricedStep {
  StepProgram program;
  std::vector<ActionPrice> prices;
  StepTimes times;
  bool proved = false;  // with those of all other ranks
};

// The steady step of a rank of a plan: its own cells on its cores, a link that carries one bucket at a time.
// A rule of workers that go alone has the times of one worker whom nobody disturbs. Fails where the programs
// of all ranks do not fit together.
Result<PricedStep> price_step(const Plan& plan, const StepCosts& costs, const Replicas& replicas, int rank);

// One line per action, in the order in which they begin.
std::string draw_text(const PricedStep& step);
Json to_json(const PricedStep& step);
// Lanes are cores, link and updates, time goes right. Light and dark, as the viewer likes it.
std::string draw_svg(const PricedStep& step, std::string_view title);

}  // namespace trireme::plan
