// The verifier must accept every timetable of the table and refuse broken ones, each for its reason.
#include "trireme/parallel/pipeline/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/parallel/pipeline/specs.h"

namespace trireme::parallel {
namespace {

TEST(VerifyTimetable, AcceptsAllRows) {
  int num_proved = 0;
  for_each_spec([&](const TimetableRow&, const TimetableSpec& spec) {
    const Status status = verify_timetable(spec);
    ASSERT_TRUE(status.ok()) << text_of(spec) << ": " << status.message();
    ++num_proved;
  });
  EXPECT_GT(num_proved, 2500);
  for (int every = 3; every < 20; ++every)
    EXPECT_TRUE(verify_timetable({"2bw", 3, 1, 17, every}).ok()) << every;
  for (int stages = 1; stages < 9; ++stages)
    for (const int micro_batches : {1, 3, 8, 21}) {
      TimetableSpec spec{.kind = "async", .stages = stages, .micro_batches = micro_batches};
      spec.vertical_sync = true;
      EXPECT_TRUE(verify_timetable(spec).ok()) << text_of(spec);
      spec.vertical_sync = spec.weight_stashing = false;
      EXPECT_TRUE(verify_timetable(spec).ok()) << text_of(spec);
    }
}

class BrokenTimetable : public ::testing::Test {
 protected:
  void make(const TimetableSpec& s) {
    spec = s;
    stages = *build_timetables(spec);
    ASSERT_TRUE(verify_timetables(spec, stages).ok());
  }
  StageActions::iterator at(int stage, Phase phase, int micro_batch) {
    StageActions& actions = stages[static_cast<std::size_t>(stage)];
    return std::find_if(actions.begin(), actions.end(), [&](const TimetableAction& a) {
      return a.phase == phase && a.micro_batch == micro_batch;
    });
  }
  void expect_refused(const std::string& reason) {
    const Status status = verify_timetables(spec, stages);
    ASSERT_FALSE(status.ok()) << "expected: " << reason;
    EXPECT_NE(status.message().find(reason), std::string::npos) << status.message();
  }
  TimetableSpec spec;
  std::vector<StageActions> stages;
};

TEST_F(BrokenTimetable, LacksAStage) {
  make({"1f1b", 3, 1, 4});
  stages.pop_back();
  expect_refused("timetables of 2 stages, expected 3");
}

TEST_F(BrokenTimetable, LacksAnAction) {
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kWeights, Phase::kUpdate}) {
    make({"1f1b", 3, 1, 4});
    stages[1].erase(at(1, phase, 3));
    // What comes after a phase that is missing has nothing to begin with.
    expect_refused(phase == Phase::kForward || phase == Phase::kBackward
                       ? fmt::format("comes before its {}", phase_letter(phase))
                   : phase == Phase::kWeights ? "comes after W of 3 micro-batches, expected an update after 4"
                                              : "U of micro-batch 3 at virtual stage 1 is missing");
  }
  make({"gpipe", 2, 1, 2});
  stages[1] = {{Phase::kForward, 0, 1}, {Phase::kBackward, 0, 1}, {Phase::kWeights, 0, 1}};
  expect_refused("F of micro-batch 1 at virtual stage 1 is missing");
}

TEST_F(BrokenTimetable, DoesSomethingTwice) {
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kWeights}) {
    make({"gpipe", 3, 1, 4});
    stages[2].insert(at(2, phase, 1), *at(2, phase, 1));
    expect_refused(fmt::format("{} of micro-batch 1 at virtual stage 2 is there twice", phase_letter(phase)));
  }
  make({"1f1b", 3, 1, 4});
  stages[0].push_back(stages[0].back());
  expect_refused("U of micro-batch 3 at virtual stage 0 is there twice");
}

TEST_F(BrokenTimetable, ComputesWhatIsElsewhere) {
  make({"interleaved", 2, 2, 4});
  stages[0][0].virtual_stage = 1;
  expect_refused("is not of this stage and step");
  stages[0][0] = {Phase::kForward, 4, 0};
  expect_refused("is not of this stage and step");
}

TEST_F(BrokenTimetable, SwapsPhases) {
  make({"gpipe", 2, 1, 3});
  std::iter_swap(at(0, Phase::kForward, 2), at(0, Phase::kBackward, 2));
  expect_refused("B of micro-batch 2 at virtual stage 0 comes before its F");
}

TEST_F(BrokenTimetable, AddsGradientsInAnotherOrder) {
  make({"zb-h1", 3, 1, 4});
  std::iter_swap(at(2, Phase::kWeights, 2), at(2, Phase::kWeights, 3));
  expect_refused("W of micro-batch 3 at virtual stage 2 comes before that of micro-batch 2");
}

TEST_F(BrokenTimetable, UpdatesTooEarlyOrTooLate) {
  make({"async", 2, 1, 4});
  std::iter_swap(at(1, Phase::kUpdate, 1), at(1, Phase::kWeights, 1));
  expect_refused("comes after W of 1 micro-batches, expected an update after 2");
  make({"2bw", 2, 1, 4});
  stages[1].erase(at(1, Phase::kUpdate, 1));
  expect_refused("W of micro-batch 2 at virtual stage 1 comes before the update after micro-batch 1");
  make({"async", 2, 1, 4});  // F of micro-batch 2 before the update that it reads
  std::iter_swap(at(1, Phase::kUpdate, 1), at(1, Phase::kForward, 2));
  expect_refused("F of micro-batch 2 at virtual stage 1");
}

// An update came before a forward pass that reads the weights from before it.
TEST_F(BrokenTimetable, ReadsAVersionThatIsNotStashed) {
  make({.kind = "async", .stages = 2, .micro_batches = 4, .weight_stashing = false});
  const StageActions& actions = stages[0];
  ASSERT_EQ(*(at(0, Phase::kForward, 2) - 1), (TimetableAction{Phase::kUpdate, 0, 0}));
  std::rotate(at(0, Phase::kForward, 1), at(0, Phase::kForward, 1) + 1, at(0, Phase::kForward, 2));
  ASSERT_EQ(*(at(0, Phase::kForward, 1) - 1), (TimetableAction{Phase::kUpdate, 0, 0}));
  expect_refused("F of micro-batch 1 at virtual stage 0 reads the weights after 0 updates, and there were 1");
  ASSERT_EQ(actions.size(), 16U);
}

TEST_F(BrokenTimetable, KeepsMoreThanItDeclares) {
  make({"gpipe", 3, 1, 6});
  spec.kind = "1f1b";
  expect_refused("makes 4 micro-batches in flight, expected at most 3");
  make({"zb-h2", 3, 1, 6});
  spec.kind = "zb-h1";
  expect_refused("makes 4 micro-batches in flight, expected at most 3");
}

// Stage 0 wants a gradient before it has sent the activations that stage 1 needs for it.
TEST_F(BrokenTimetable, WaitsInACycle) {
  make({"gpipe", 2, 1, 2});
  stages[1] = {{Phase::kForward, 0, 1}, {Phase::kForward, 1, 1},  {Phase::kBackward, 0, 1},
               {Phase::kWeights, 0, 1}, {Phase::kBackward, 1, 1}, {Phase::kWeights, 1, 1},
               {Phase::kUpdate, 1, 1}};
  stages[0] = {{Phase::kForward, 0, 0}, {Phase::kBackward, 0, 0}, {Phase::kWeights, 0, 0},
               {Phase::kForward, 1, 0}, {Phase::kBackward, 1, 0}, {Phase::kWeights, 1, 0},
               {Phase::kUpdate, 1, 0}};
  expect_refused(
      "the timetable never ends: stage 0 waits at B of micro-batch 0 at virtual stage 0 for gradients from "
      "stage 1; stage 1 waits at F of micro-batch 1 at virtual stage 1 for activations from stage 0");
}

TEST_F(BrokenTimetable, TakesMessagesInAnotherOrderThanTheyAreSent) {
  make({"gpipe", 2, 1, 3});
  std::iter_swap(at(1, Phase::kForward, 0), at(1, Phase::kForward, 1));
  expect_refused("for activations from stage 0, which sends those of micro-batch 0 first");
}

// Forwards and backwards of chunks in the same order: the last chunk's come first backward.
TEST_F(BrokenTimetable, WaitsForItself) {
  make({"interleaved", 1, 2, 2});
  std::swap(stages[0][0], stages[0][1]);
  ASSERT_EQ(stages[0][0].virtual_stage, 1);
  expect_refused("stage 0 waits at F of micro-batch 0 at virtual stage 1 for activations from stage 0");
}

// Any two neighbours in the order may be swapped: the verifier says no, or the walk through it ends.
TEST(VerifyTimetable, RefusesOrAcceptsRandomSwapsWithoutHanging) {
  std::mt19937 random(7);
  int num_refused = 0, num_accepted = 0;
  for_each_spec(
      [&](const TimetableRow&, const TimetableSpec& spec) {
        std::vector<StageActions> stages = *build_timetables(spec);
        StageActions& actions = stages[random() % stages.size()];
        std::swap(actions[random() % actions.size()], actions[random() % actions.size()]);
        ++(verify_timetables(spec, stages).ok() ? num_accepted : num_refused);
      },
      7, 16);
  EXPECT_GT(num_refused, 300);
  EXPECT_GT(num_accepted, 10);
}

}  // namespace
}  // namespace trireme::parallel
