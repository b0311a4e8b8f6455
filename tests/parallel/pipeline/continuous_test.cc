#include "trireme/parallel/pipeline/continuous.h"

#include <gtest/gtest.h>

namespace trireme::parallel {
namespace {

// The steps of a run are the timetable of all its micro-batches, cut behind the updates.
TEST(ActionsOfStep, AreTogetherTheTimetableOfTheRun) {
  for (const TimetableRow& row : timetable_table()) {
    if (row.is_synchronous) continue;
    for (int stages = 1; stages <= 6; ++stages)
      for (const int every : {stages, stages + 1, 2 * stages + 3})
        for (const int steps : {1, 2, 3, 9}) {
          TimetableSpec spec{.kind = row.name, .stages = stages};
          if (spec.kind == "2bw") spec.update_every = every;
          spec.micro_batches = row.update_every(spec) * steps;
          ASSERT_TRUE(check_timetable(spec).ok());
          for (int stage = 0; stage < stages; ++stage) {
            StageActions all;
            for (int step = 0; step < steps; ++step) {
              const StageActions own = actions_of_step(spec, row, stage, step, steps);
              EXPECT_EQ(own.back().phase, Phase::kUpdate);
              all.insert(all.end(), own.begin(), own.end());
            }
            EXPECT_EQ(all, *build_timetable(spec, stage))
                << row.name << " stage " << stage << " of " << stages << ", " << steps << " steps of "
                << row.update_every(spec);
          }
        }
  }
}

TEST(ActionsOfStep, BeginStepsAheadOfTheOneTheyEnd) {
  const TimetableSpec each{.kind = "async", .stages = 4},
      groups{.kind = "2bw", .stages = 4, .update_every = 5};
  const TimetableRow &async = **find_timetable_row("async"), &two_bw = **find_timetable_row("2bw");
  EXPECT_EQ(steps_ahead(each, async, 0), 3);
  EXPECT_EQ(steps_ahead(each, async, 3), 0);
  EXPECT_EQ(steps_ahead(groups, two_bw, 0), 1);
  EXPECT_EQ(places_of_run(each, async, 1), 3);
  EXPECT_EQ(places_of_run(groups, two_bw, 3), 1);
}

}  // namespace
}  // namespace trireme::parallel
