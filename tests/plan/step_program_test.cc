#include "trireme/plan/step_program.h"

#include <gtest/gtest.h>

#include <random>

namespace trireme::plan {
namespace {

using Path = cost::Traffic::Path;

int pick(std::mt19937& rng, int least, int most) {
  return std::uniform_int_distribution<int>(least, most)(rng);
}

// The specs of all ranks of a random job: forward reads the buckets, backward makes them final.
std::vector<StepSpec> random_specs(std::mt19937& rng, Timetable timetable) {
  const int buckets = pick(rng, 1, 6), ranks = pick(rng, 1, 4), shards = pick(rng, ranks, 9);
  std::vector<double> needed, final;
  for (int b = 0; b < buckets; ++b) needed.push_back(pick(rng, 0, 4)), final.push_back(pick(rng, 4, 8));
  StepParts parts = cut_step(needed, final, pick(rng, 3, 5), 8);
  Plan plan;
  plan.logical_shards = shards;
  plan.owners = parallel::even_runs(shards, ranks);
  plan.timetable = timetable;
  plan.overlap = static_cast<Overlap>(pick(rng, 0, 2));
  for (int b = 0; b < buckets; ++b) plan.exchange_order.push_back(b);
  std::shuffle(plan.exchange_order.begin(), plan.exchange_order.end(), rng);
  cost::Traffic traffic;
  traffic.path = static_cast<Path>(pick(rng, 0, 3));
  traffic.updates_here = traffic.path != Path::kServers || pick(rng, 0, 1) == 0;
  parts.updates_wait = pick(rng, 0, 1) == 0;
  std::vector<StepSpec> specs;
  for (int rank = 0; rank < ranks; ++rank)
    specs.push_back(step_spec(plan, plan.cell_owners(), parts, traffic, rank));
  return specs;
}

std::vector<StepProgram> build_all(const std::vector<StepSpec>& specs) {
  std::vector<StepProgram> programs;
  for (const StepSpec& spec : specs) {
    Result<StepProgram> program = build_step(spec);
    EXPECT_TRUE(program.ok()) << program.status().to_string();
    programs.push_back(std::move(*program));
  }
  return programs;
}

TEST(StepTable, EveryRowBuildsStepsThatAreProved) {
  std::mt19937 rng(1);
  for (const StepRow& row : step_table()) {
    EXPECT_STRNE(row.doc, "");
    EXPECT_EQ(*find_timetable(timetable_name(row.timetable)), row.timetable);
    for (int i = 0; i < 100; ++i) {
      const std::vector<StepSpec> specs = random_specs(rng, row.timetable);
      const Status proved = verify_steps(build_all(specs), specs);
      ASSERT_TRUE(proved.ok()) << proved.to_string();
    }
  }
}

std::vector<StepSpec> two_ranks() {
  const std::vector<double> needed{1, 0}, final{2, 3};
  const StepParts parts = cut_step(needed, final, 1, 3);
  Plan plan;
  plan.logical_shards = 4;
  plan.owners = parallel::even_runs(4, 2);
  const parallel::CellOwners owners = plan.cell_owners();
  return {step_spec(plan, owners, parts, {}, 0), step_spec(plan, owners, parts, {}, 1)};
}

void expect_broken(const std::vector<StepProgram>& programs, const std::string& why) {
  const Status status = verify_steps(programs, two_ranks());
  EXPECT_FALSE(status.ok()) << why;
  EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
}

std::size_t find(const StepProgram& p, ActionKind kind, std::int32_t bucket = -1) {
  for (std::size_t i = 0; i < p.actions.size(); ++i)
    if (p.actions[i].kind == kind && (bucket < 0 || p.actions[i].bucket == bucket)) return i;
  return p.actions.size();
}

TEST(VerifySteps, FindsAGradientThatIsSummedTwiceOrNotAtAll) {
  auto programs = build_all(two_ranks());
  ASSERT_TRUE(verify_steps(programs, two_ranks()).ok());
  programs[1].actions[find(programs[1], ActionKind::kSum, 1)].bucket = 0;
  expect_broken(programs, "rank 1: bucket 0 is summed 2 times, expected 1");
}

TEST(VerifySteps, FindsAGradientThatIsNotApplied) {
  auto programs = build_all(two_ranks());
  programs[0].actions[find(programs[0], ActionKind::kUpdate, 1)].kind = ActionKind::kVote;
  expect_broken(programs, "2 votes");
  programs = build_all(two_ranks());
  programs[0].actions[find(programs[0], ActionKind::kUpdate, 1)].kind = ActionKind::kSend;
  expect_broken(programs, "bucket 1 is applied 0 times");
}

TEST(VerifySteps, FindsASumThatDoesNotWaitForAllCells) {
  auto programs = build_all(two_ranks());
  --programs[0].actions[find(programs[0], ActionKind::kSum, 0)].num_deps;
  expect_broken(programs, "begins when 1 of 2 cells have made the gradient");
}

TEST(VerifySteps, FindsAnUpdateThatDoesNotWaitForItsSum) {
  auto programs = build_all(two_ranks());
  StepProgram& p = programs[0];
  Action& update = p.actions[find(p, ActionKind::kUpdate, 0)];
  const Action& sum = p.actions[find(p, ActionKind::kSum, 0)];
  update.first_dep = sum.first_dep;
  update.num_deps = sum.num_deps;
  expect_broken(programs, "bucket 0 is applied before it is summed");
}

TEST(VerifySteps, FindsRanksThatBeginTheirSumsInOrdersThatWaitForEachOther) {
  std::vector<StepSpec> specs = two_ranks();
  specs[0].overlap = specs[1].overlap = Overlap::kFull;
  specs[0].order = {0, 1};
  specs[1].order = {1, 0};
  const Status status = verify_steps(build_all(specs), specs);
  EXPECT_NE(status.message().find("waits for itself"), std::string::npos) << status.message();
}

// Adds a message between the first computation and the vote of two ranks.
void add_message(StepProgram& p, ActionKind kind, int peer, Slot slot) {
  Action a{.kind = kind, .peer = peer, .slot = slot};
  a.first_dep = static_cast<std::uint32_t>(p.deps.size());
  a.num_deps = 1;
  p.deps.push_back(static_cast<std::uint32_t>(p.actions.size() - 1));
  p.actions.push_back(a);
}

TEST(VerifySteps, FindsSendsThatWaitForEachOthersRecv) {
  auto programs = build_all(two_ranks());
  for (int r = 0; r < 2; ++r) add_message(programs[static_cast<std::size_t>(r)], ActionKind::kSend, 1 - r, 9);
  expect_broken(programs, "has no partner");
  auto good = programs;
  add_message(programs[0], ActionKind::kRecv, 1, 9);
  add_message(programs[1], ActionKind::kRecv, 0, 9);
  expect_broken(programs, "waits for itself");
  good = build_all(two_ranks());
  add_message(good[0], ActionKind::kSend, 1, 9);
  add_message(good[0], ActionKind::kRecv, 1, 9);
  add_message(good[1], ActionKind::kRecv, 0, 9);
  add_message(good[1], ActionKind::kSend, 0, 9);
  EXPECT_TRUE(verify_steps(good, two_ranks()).ok()) << verify_steps(good, two_ranks()).to_string();
}

TEST(BuildStep, VotesOnTheLossWhileBackwardRuns) {
  const StepProgram p = build_all(two_ranks())[0];
  const Action& vote = p.actions[find(p, ActionKind::kVote)];
  EXPECT_EQ(vote.slot, kSlotVote);
  EXPECT_EQ(vote.num_deps, 2U);  // one part of each cell
  for (const std::uint32_t d : p.deps_of(vote)) EXPECT_EQ(p.actions[d].part, two_ranks()[0].loss_after);
}

TEST(BuildStep, VotesAfterAllSumsWhereUpdatesWaitForIt) {
  StepSpec spec = two_ranks()[0];
  spec.updates_wait = true;
  const StepProgram p = *build_step(spec);
  const std::size_t vote = find(p, ActionKind::kVote);
  std::size_t sums = 0;
  for (const std::uint32_t d : p.deps_of(p.actions[vote])) sums += p.actions[d].kind == ActionKind::kSum;
  EXPECT_EQ(sums, spec.num_buckets());
  for (std::int32_t b = 0; b < 2; ++b) {
    const auto deps = p.deps_of(p.actions[find(p, ActionKind::kUpdate, b)]);
    EXPECT_NE(std::find(deps.begin(), deps.end(), vote), deps.end());
  }
}

TEST(WalkStep, AVoteThatOutlastsBackwardDelaysTheNextStep) {
  StepShape s{{0}, {2}, {0}, {0}, 2};
  s.loss_at = 1;
  s.vote = 0.5;
  EXPECT_DOUBLE_EQ(step_seconds(s, {}, Overlap::kBuckets), 2);
  s.vote = 1.5;
  EXPECT_DOUBLE_EQ(step_seconds(s, {}, Overlap::kBuckets), 2.5);
}

TEST(BuildStep, RefusesASpecThatNamesWhatIsNotThere) {
  const StepSpec good = two_ranks()[0];
  EXPECT_TRUE(build_step(good).ok());
  for (int wrong = 0; wrong < 7; ++wrong) {
    StepSpec spec = good;
    if (wrong == 0) spec.cells.clear();
    if (wrong == 1) spec.final_after.clear(), spec.needed_by.clear();
    if (wrong == 2) spec.needed_by.pop_back();
    if (wrong == 3) spec.final_after[0] = spec.num_parts;
    if (wrong == 4) spec.needed_by[0] = -1;
    if (wrong == 5) spec.order = {0, 0};
    if (wrong == 6) spec.loss_after = spec.num_parts;
    EXPECT_EQ(build_step(spec).status().code(), Code::kInvalid) << wrong;
  }
}

// What the walk replaced: a step in steady state by a loop over buckets.
double by_hand(const StepShape& s, const std::vector<std::int32_t>& order, Overlap overlap) {
  constexpr int kSteps = 8;
  const std::size_t n = s.final_at.size();
  std::vector<double> there(n, 0);
  double start = 0, link = 0, half = 0;
  for (int step = 0; step < kSteps; ++step) {
    if (step == kSteps / 2) half = start;
    double late = 0;
    for (std::size_t i = 0; overlap == Overlap::kFull && i < n; ++i)
      late = std::max(late, there[i] - (start + s.needed_at[i]));
    const double end = start + late + s.compute;
    double applied = 0;
    for (std::size_t k = 0; k < n; ++k) {
      const std::size_t i = overlap == Overlap::kFull ? static_cast<std::size_t>(order[k]) : k;
      const double final = overlap == Overlap::kNone ? end : start + late + s.final_at[i];
      link = std::max(link, final) + s.exchange[i];
      there[i] = applied = std::max(applied, link) + s.update[i];
    }
    start = end;
    for (std::size_t i = 0; overlap != Overlap::kFull && i < n; ++i) start = std::max(start, there[i]);
  }
  return (start - half) / (kSteps - kSteps / 2);
}

TEST(WalkStep, GivesTheSecondsThatALoopOverBucketsGives) {
  std::mt19937 rng(7);
  std::uniform_real_distribution<double> some(0, 1);
  for (int i = 0; i < 300; ++i) {
    StepShape s;
    s.compute = 1 + some(rng);
    std::vector<std::int32_t> order;
    for (int b = pick(rng, 1, 8); b > 0; --b) {
      order.push_back(static_cast<std::int32_t>(order.size()));
      s.needed_at.push_back(s.compute / 3 * some(rng));
      s.final_at.push_back(s.compute / 3 * (1 + 2 * some(rng)));
      s.exchange.push_back(some(rng) * some(rng));
      s.update.push_back(0.1 * some(rng));
    }
    std::shuffle(order.begin(), order.end(), rng);
    for (const Overlap overlap : {Overlap::kNone, Overlap::kBuckets, Overlap::kFull})
      EXPECT_NEAR(step_seconds(s, order, overlap), std::max(s.compute, by_hand(s, order, overlap)), 1e-12)
          << overlap_name(overlap);
  }
}

}  // namespace
}  // namespace trireme::plan
