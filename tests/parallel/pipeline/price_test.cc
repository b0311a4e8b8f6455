#include "trireme/parallel/pipeline/price.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "tests/parallel/pipeline/specs.h"

namespace trireme::parallel {
namespace {

PricedTimetable priced(const TimetableSpec& spec, const TimetableTimes& times) {
  Result<PricedTimetable> result = price_timetable(spec, times);
  TR_CHECK(result.ok(), "{}: {}", text_of(spec), result.status().message());
  return std::move(result).value();
}

// Times are sums of powers of two: no rounding.
TEST(PriceTimetable, IsTheClosedFormExactly) {
  int num_forms = 0;
  for_each_spec([&](const TimetableRow& row, const TimetableSpec& spec) {
    for (const PhaseTimes& t : {PhaseTimes{1, 1, 1, 0}, PhaseTimes{1, 2, 1, 0.5}, PhaseTimes{3, 0.5, 0.25, 1},
                                PhaseTimes{1, 1, 2, 0}, PhaseTimes{0.5, 0.75, 0.5, 4}}) {
      const std::optional<double> bubble = row.bubble_seconds(spec, t);
      if (!bubble) continue;
      ++num_forms;
      const PricedTimetable p = priced(spec, TimetableTimes::equal(spec, t, 0));
      const double busy = p.price.stages[0].busy_seconds;
      ASSERT_EQ(p.price.step_seconds, busy + *bubble) << text_of(spec);
      ASSERT_EQ(p.price.bubble_fraction, 1 - busy * spec.stages / (spec.stages * p.price.step_seconds));
    }
  });
  EXPECT_GT(num_forms, 10'000);
}

// The same work per stage: f, b and w of a stage, cut into virtual stages.
TEST(PriceTimetable, HasTheBubblesOfThePapers) {
  const auto bubble = [](const char* kind, int virtual_stages) {
    const TimetableSpec spec{kind, 8, virtual_stages, 32};
    const double one = 1.0 / virtual_stages;
    const PricedTimetable p = priced(spec, TimetableTimes::equal(spec, {one, one, one, 0}, 0));
    return p.price.step_seconds - 3 * 32;
  };
  EXPECT_EQ(bubble("gpipe", 1), 7 * 3);
  EXPECT_EQ(bubble("1f1b", 1), 7 * 3);
  EXPECT_EQ(bubble("interleaved", 1), 7 * 3);
  EXPECT_EQ(bubble("interleaved", 2), 7 * 3 / 2.0);
  EXPECT_EQ(bubble("interleaved", 4), 7 * 3 / 4.0);
  EXPECT_EQ(bubble("zb-h1", 1), 7);
  EXPECT_EQ(bubble("zb-h2", 1), 0);
}

TEST(PriceTimetable, HasNoFormWhereWIsLongOrMicroBatchesAreFew) {
  EXPECT_FALSE((*find_timetable_row("zb-h1"))->bubble_seconds({"zb-h1", 4, 1, 8}, {1, 1, 2, 0}));
  EXPECT_FALSE((*find_timetable_row("zb-h1"))->bubble_seconds({"zb-h1", 4, 1, 3}, {1, 1, 1, 0}));
  EXPECT_FALSE((*find_timetable_row("zb-h2"))->bubble_seconds({"zb-h2", 4, 1, 6}, {1, 1, 1, 0}));
}

TEST(PriceTimetable, PeaksAreThoseThatTheRowsDeclare) {
  for_each_spec([](const TimetableRow& row, const TimetableSpec& spec) {
    const PricedTimetable p = priced(spec, TimetableTimes::equal(spec, {1, 1, 1, 0}, 0));
    for (int s = 0; s < spec.stages; ++s)
      ASSERT_EQ(p.price.stages[static_cast<std::size_t>(s)].peak_in_flight, row.in_flight(spec, s))
          << text_of(spec) << ", stage " << s;
  });
}

double random_time(std::mt19937& random) { return std::uniform_real_distribution<double>(0, 2)(random); }

TimetableTimes random_times(const TimetableSpec& spec, std::mt19937& random) {
  TimetableTimes times = TimetableTimes::equal(spec, {}, 0);
  for (PhaseTimes& t : times.phases)
    t = {random_time(random), random_time(random), random_time(random), random_time(random)};
  for (double& t : times.activations) t = random_time(random);
  for (double& t : times.gradients) t = random_time(random);
  return times;
}

// What every walk must keep to, said again in other words: no action before the one before it or before its
// message can be there, and none later than it has to be but for links.
TEST(PriceTimetable, KeepsToDependenciesWithRandomTimes) {
  std::mt19937 random(11);
  for_each_spec(
      [&](const TimetableRow&, const TimetableSpec& spec) {
        const TimetableTimes times = random_times(spec, random);
        const PricedTimetable p = priced(spec, times);
        double busiest = 0, longest = 0;
        std::vector<double> forward_end(static_cast<std::size_t>(spec.chain() * spec.micro_batches));
        std::vector<double> backward_end(forward_end.size());
        const auto place = [&](int v, int m) { return static_cast<std::size_t>(v * spec.micro_batches + m); };
        for (std::size_t s = 0; s < p.stages.size(); ++s) {
          const StagePrice& stage = p.price.stages[s];
          ASSERT_EQ(stage.times.size(), p.stages[s].size());
          busiest = std::max(busiest, stage.busy_seconds);
          longest = std::max(longest, stage.times.back().end - stage.times.front().start);
          ASSERT_NEAR(stage.busy_seconds + stage.waiting_seconds,
                      stage.times.back().end - stage.times.front().start, 1e-9);
          for (std::size_t i = 0; i < stage.times.size(); ++i) {
            const TimetableAction& a = p.stages[s][i];
            ASSERT_GE(stage.times[i].start, i > 0 ? stage.times[i - 1].end : 0);
            if (a.phase == Phase::kForward)
              forward_end[place(a.virtual_stage, a.micro_batch)] = stage.times[i].end;
            if (a.phase == Phase::kBackward)
              backward_end[place(a.virtual_stage, a.micro_batch)] = stage.times[i].end;
          }
        }
        EXPECT_EQ(p.price.step_seconds, longest);
        EXPECT_GE(p.price.step_seconds, busiest - 1e-9);
        EXPECT_GE(p.price.makespan_seconds, p.price.step_seconds);
        for (int m = 0; m < spec.micro_batches; ++m)
          for (int v = 0; v + 1 < spec.chain(); ++v) {
            const auto b = static_cast<std::size_t>(v);
            const double link = spec.stages > 1 ? 1 : 0;
            ASSERT_GE(forward_end[place(v + 1, m)] - times.phases[b + 1].forward + 1e-9,
                      forward_end[place(v, m)] + link * times.activations[b]);
            ASSERT_GE(backward_end[place(v, m)] - times.phases[b].backward + 1e-9,
                      backward_end[place(v + 1, m)] + link * times.gradients[b]);
          }
      },
      12, 24);
}

// Two stages and two micro-batches by hand: messages of 3 follow each other on their link.
TEST(PriceTimetable, SendsOneMessageAtATimeBesideComputation) {
  const TimetableSpec spec{"gpipe", 2, 1, 2};
  const PricedTimetable p = priced(spec, TimetableTimes::equal(spec, {1, 1, 1, 0.5}, 3));
  const auto starts = [&](std::size_t s) {
    std::vector<double> times;
    for (const ActionTime& t : p.price.stages[s].times) times.push_back(t.start);
    return times;
  };
  EXPECT_EQ(starts(0), (std::vector<double>{0, 1, 13, 14, 16, 17, 18}));
  EXPECT_EQ(starts(1), (std::vector<double>{4, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(p.price.step_seconds, 18.5);
  EXPECT_EQ(p.price.stages[0].waiting_seconds, 12);
  EXPECT_EQ(p.price.stages[1].busy_seconds, 6.5);
  EXPECT_DOUBLE_EQ(p.price.bubble_fraction, 1 - 6.5 / 18.5);
}

TEST(PriceTimetable, RefusesTimesThatAreNone) {
  const TimetableSpec spec{"1f1b", 3, 1, 4};
  const TimetableTimes good = TimetableTimes::equal(spec, {1, 1, 1, 1}, 1);
  EXPECT_TRUE(price_timetable(spec, good).ok());
  TimetableTimes few = good, negative = good, none = good;
  few.gradients.pop_back();
  negative.phases[1].weights = -1;
  none.activations[0] = std::numeric_limits<double>::quiet_NaN();
  for (const TimetableTimes& times : {few, negative, none})
    EXPECT_EQ(price_timetable(spec, times).status().code(), Code::kInvalid);
}

TEST(WalkTimetables, SaysWhereItComesToNoEnd) {
  const TimetableSpec spec{"1f1b", 2, 1, 2};
  std::vector<StageActions> stages = *build_timetables(spec);
  std::swap(stages[0][1], stages[0][2]);  // B0 before F1 would do; W0 before F1 is swapped too
  std::reverse(stages[1].begin(), stages[1].end());
  const auto walked = walk_timetables(spec, stages, TimetableTimes::equal(spec, {1, 1, 1, 0}, 0));
  EXPECT_EQ(walked.status().code(), Code::kInternal);
  EXPECT_NE(walked.status().message().find("waits for ever at"), std::string::npos);
}

}  // namespace
}  // namespace trireme::parallel
