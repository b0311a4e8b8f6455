#include "trireme/engine/step_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::engine {
namespace {

using ::testing::ElementsAre;

// Four buckets of one cell: bucket b is final after part b + 1, the loss after part 0.
plan::StepSpec four_buckets() {
  plan::StepSpec spec;
  spec.num_parts = 6;
  spec.needed_by = {0, 0, 0, 0};
  spec.final_after = {1, 2, 3, 4};
  spec.loss_after = 0;
  spec.overlap = plan::Overlap::kFull;
  spec.order = {0, 3, 2, 1};
  return spec;
}

// What begins now, in words.
std::vector<std::string> all_next(StepProgress& progress, std::vector<std::uint32_t>* begun = nullptr) {
  std::vector<std::string> out;
  while (const auto a = progress.next()) {
    out.push_back(progress.action(*a).to_text());
    if (begun != nullptr) begun->push_back(*a);
  }
  return out;
}

std::uint32_t find(const StepProgress& progress, const std::string& text) {
  const auto& actions = progress.program().actions;
  for (std::uint32_t a = 0; a < actions.size(); ++a)
    if (actions[a].to_text() == text) return a;
  ADD_FAILURE() << text;
  return 0;
}

TEST(StepProgress, SumsKeepTheOrderAndTheBound) {
  StepProgress progress(*plan::build_step(four_buckets()), 2);
  progress.begin();
  progress.computed(0, 1);
  EXPECT_THAT(all_next(progress), ElementsAre("sum bucket 0"));
  progress.computed(0, 2);
  progress.computed(0, 3);
  EXPECT_THAT(all_next(progress), ElementsAre()) << "bucket 3 comes first";
  progress.computed(0, 4);
  EXPECT_THAT(all_next(progress), ElementsAre("sum bucket 3")) << "two at once";
  progress.ended(find(progress, "sum bucket 0"));
  EXPECT_THAT(all_next(progress), ElementsAre("sum bucket 2", "update bucket 0"));
  progress.ended(find(progress, "sum bucket 3"));
  EXPECT_THAT(all_next(progress), ElementsAre("sum bucket 1", "update bucket 3"));
}

TEST(StepProgress, WithoutABoundSumsBeginWhenTheyAreReady) {
  plan::StepSpec spec = four_buckets();
  spec.overlap = plan::Overlap::kBuckets;
  spec.order.clear();
  StepProgress progress(*plan::build_step(spec), 0);
  progress.begin();
  for (const std::int32_t part : {3, 1, 2}) progress.computed(0, part);
  EXPECT_THAT(all_next(progress), ElementsAre("sum bucket 2", "sum bucket 0", "sum bucket 1"));
}

TEST(StepProgress, AStepEndsWhenEveryActionHasAndTheNextOneBegins) {
  StepProgress progress(*plan::build_step(four_buckets()), 4);
  EXPECT_EQ(progress.left(), 0U) << "before the first step";
  for (int step = 0; step < 3; ++step) {
    progress.begin();
    EXPECT_EQ(progress.left(), 9U) << "four sums, four updates, a vote";
    progress.computed_all();
    std::size_t actions = 0;
    while (const auto a = progress.next()) {
      EXPECT_FALSE(progress.is_done(*a));
      progress.ended(*a);
      EXPECT_TRUE(progress.is_done(*a));
      ++actions;
    }
    EXPECT_EQ(actions, 9U);
    EXPECT_EQ(progress.left(), 0U);
  }
}

TEST(StepProgress, WhatIsDroppedNeverBeginsAndWhatBeganIsWaitedFor) {
  StepProgress progress(*plan::build_step(four_buckets()), 4);
  progress.begin();
  progress.computed(0, 1);
  std::vector<std::uint32_t> begun;
  EXPECT_THAT(all_next(progress, &begun), ElementsAre("sum bucket 0"));
  progress.drop_waiting();
  progress.computed_all();
  EXPECT_THAT(all_next(progress), ElementsAre());
  EXPECT_EQ(progress.left(), 1U);
  progress.ended(begun[0]);
  EXPECT_EQ(progress.left(), 0U);
  EXPECT_THAT(all_next(progress), ElementsAre());
}

TEST(StepProgress, UpdatesWaitForTheVoteWhereItIsAboutAllGradients) {
  plan::StepSpec spec = four_buckets();
  spec.overlap = plan::Overlap::kBuckets;
  spec.order.clear();
  spec.updates_wait = true;
  StepProgress progress(*plan::build_step(spec), 0);
  progress.begin();
  progress.computed_all();
  std::vector<std::uint32_t> sums;
  EXPECT_EQ(all_next(progress, &sums).size(), 4U);
  for (const std::uint32_t a : sums) progress.ended(a);
  EXPECT_THAT(all_next(progress), ElementsAre("vote"));
  progress.ended(find(progress, "vote"));
  EXPECT_EQ(all_next(progress).size(), 4U);
}

}  // namespace
}  // namespace trireme::engine
