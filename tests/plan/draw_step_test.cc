#include "trireme/plan/draw_step.h"

#include <gtest/gtest.h>

namespace trireme::plan {
namespace {

// Two shards of two seconds each on two cores, two buckets, links of 1 GB/s.
struct World {
  Plan plan;
  StepCosts costs;
  Replicas replicas;

  World() {
    plan.logical_shards = 4;
    plan.owners = parallel::even_runs(4, 2);
    plan.buckets.resize(2);
    for (Bucket& b : plan.buckets) b.num_elems = 250'000'000, b.collective = "ring";
    costs.strands = {{.flops = 1e9}, {.flops = 1e9}};
    costs.needed_before = {0, 0};
    costs.final_after = {0, 1};
    costs.updates.resize(2);
    cost::MachineModel& m = replicas.rates.machine;
    m.cores = 2;
    m.flops_per_second_per_core = 1e9;
    m.bytes_per_second = 1e15;
    m.op_overhead_ns = 0;
    const cost::LinkModel link{.latency_ns = 0, .bytes_per_second = 1e9, .message_overhead_ns = 0};
    replicas.rates.comm = cost::CommModel(link, m);
    replicas.rates.comm.reduce_seconds_per_byte = 1e-15;
  }
};

TEST(PriceStep, OfOwnCellsTakesAsLongAsTheOneSequenceThatPlansArePricedBy) {
  World w;
  for (const Overlap overlap : {Overlap::kNone, Overlap::kBuckets, Overlap::kFull})
    for (const int cores : {1, 2, 4}) {
      w.plan.overlap = overlap;
      w.plan.exchange_order = {0, 1};
      w.replicas.rates.machine.cores = cores;
      const Result<PricedStep> step = price_step(w.plan, w.costs, w.replicas, 0);
      ASSERT_TRUE(step.ok()) << step.status().to_string();
      StepShape shape = step_shape(w.plan, w.costs, w.replicas.rates);
      shape.coding = 0;
      EXPECT_NEAR(step->times.step_seconds, step_seconds(shape, w.plan.exchange_order, overlap), 1e-9)
          << overlap_name(overlap) << ", " << cores << " cores";
    }
}

TEST(DrawStep, ShowsEveryActionInTextJsonAndAPicture) {
  const World w;
  const Result<PricedStep> step = price_step(w.plan, w.costs, w.replicas, 1);
  ASSERT_TRUE(step.ok());
  const std::string text = draw_text(*step), svg = draw_svg(*step, "a < b");
  for (const char* what :
       {"compute shard 2, tile 0, segment 0, part 1", "sum bucket 0", "update bucket 1", "vote"}) {
    EXPECT_NE(text.find(what), std::string::npos) << text;
    EXPECT_NE(to_json(*step).dump().find(what), std::string::npos);
  }
  EXPECT_NE(svg.find("sum bucket 1"), std::string::npos);
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_NE(svg.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_TRUE(step->proved);
  EXPECT_EQ(to_json(*step)["actions"].size(), step->program.actions.size());
}

TEST(DrawStep, OfALeasedUnitShowsTheWayToTheServers) {
  World w;
  w.plan.timetable = Timetable::kLeased;
  w.replicas.traffic.path = cost::Traffic::Path::kServers;
  w.replicas.traffic.updates_here = false;
  w.replicas.servers = 1;
  const Result<PricedStep> step = price_step(w.plan, w.costs, w.replicas, 0);
  ASSERT_TRUE(step.ok());
  const std::string text = draw_text(*step);
  for (const char* what :
       {"send bucket 0 to the servers", "sum bucket 0 by the servers", "recv bucket 0 from the servers"})
    EXPECT_NE(text.find(what), std::string::npos) << text;
}

}  // namespace
}  // namespace trireme::plan
