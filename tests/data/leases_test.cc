#include "trireme/data/leases.h"

#include <gtest/gtest.h>

#include <limits>

namespace trireme::data {
namespace {

TEST(LeaseBook, AStepIsDoneWhenAllItsShardsAre) {
  LeaseBook book(6);
  ASSERT_TRUE(book.grant(0, {0, 3}, 0).ok());
  ASSERT_TRUE(book.grant(0, {3, 3}, 1).ok());
  ASSERT_TRUE(book.finish(0, {0, 3}, 0).ok());
  EXPECT_FALSE(book.is_step_done(0));
  EXPECT_EQ(book.completed_steps(), 0);
  ASSERT_TRUE(book.finish(0, {3, 3}, 1).ok());
  EXPECT_TRUE(book.is_step_done(0));
  EXPECT_EQ(book.completed_steps(), 1);
  EXPECT_FALSE(book.is_step_done(1));
}

TEST(LeaseBook, CountsALaterStepOnlyWhenTheEarlierOnesAreDone) {
  LeaseBook book(1);
  for (const std::int64_t step : {0, 1, 2}) ASSERT_TRUE(book.grant(step, {0, 1}, 0).ok());
  ASSERT_TRUE(book.finish(1, {0, 1}, 0).ok());
  ASSERT_TRUE(book.finish(2, {0, 1}, 0).ok());
  EXPECT_TRUE(book.is_step_done(2));
  EXPECT_EQ(book.completed_steps(), 0);
  ASSERT_TRUE(book.finish(0, {0, 1}, 0).ok());
  EXPECT_EQ(book.completed_steps(), 3);
}

TEST(LeaseBook, RefusesToGrantAShardThatIsOutLeasedOrDone) {
  constexpr std::int32_t kHuge = std::numeric_limits<std::int32_t>::max();
  LeaseBook book(4, 10);
  for (const ShardRun run :
       {ShardRun{-1, 2}, ShardRun{0, 0}, ShardRun{0, -1}, ShardRun{3, 2}, ShardRun{kHuge, kHuge}})
    EXPECT_EQ(book.grant(10, run, 0).code(), Code::kInvalid) << run.first << "+" << run.count;
  EXPECT_EQ(book.grant(9, {0, 4}, 0).code(), Code::kInvalid) << "a step before the first is done";
  ASSERT_TRUE(book.grant(10, {1, 2}, 3).ok());
  const Status taken = book.grant(10, {0, 2}, 5);
  EXPECT_EQ(taken.code(), Code::kInvalid);
  EXPECT_NE(taken.message().find("rank 3"), std::string::npos) << taken.message();
  EXPECT_TRUE(book.grant(10, {0, 1}, 5).ok()) << "the refused grant took nothing";
  ASSERT_TRUE(book.finish(10, {1, 2}, 3).ok());
  EXPECT_EQ(book.grant(10, {2, 1}, 5).code(), Code::kInvalid) << "done is done";
}

TEST(LeaseBook, OnlyTheHolderMayFinishOrGiveBack) {
  constexpr std::int32_t kHuge = std::numeric_limits<std::int32_t>::max();
  LeaseBook book(4);
  ASSERT_TRUE(book.grant(0, {0, 2}, 1).ok());
  EXPECT_EQ(book.finish(0, {0, 2}, 2).code(), Code::kNotFound);
  EXPECT_EQ(book.give_back(0, {0, 2}, 2).code(), Code::kNotFound);
  EXPECT_EQ(book.finish(0, {0, 3}, 1).code(), Code::kNotFound) << "shard 2 was not leased";
  EXPECT_EQ(book.finish(1, {0, 2}, 1).code(), Code::kNotFound) << "another step";
  EXPECT_EQ(book.finish(0, {kHuge, kHuge}, 1).code(), Code::kNotFound);
  ASSERT_TRUE(book.finish(0, {0, 2}, 1).ok());
  EXPECT_EQ(book.finish(0, {0, 2}, 1).code(), Code::kNotFound) << "twice";
}

TEST(LeaseBook, WhatIsGivenBackMayBeGrantedAgain) {
  LeaseBook book(2);
  ASSERT_TRUE(book.grant(0, {0, 2}, 0).ok());
  ASSERT_TRUE(book.give_back(0, {1, 1}, 0).ok());
  EXPECT_TRUE(book.grant(0, {1, 1}, 1).ok());
  EXPECT_EQ(book.finish(0, {1, 1}, 0).code(), Code::kNotFound);
  EXPECT_TRUE(book.finish(0, {1, 1}, 1).ok());
  EXPECT_TRUE(book.finish(0, {0, 1}, 0).ok());
  EXPECT_EQ(book.completed_steps(), 1);
}

TEST(LeaseBook, ALateAnswerAfterExpiryCountsForNothing) {
  LeaseBook book(3);
  ASSERT_TRUE(book.grant(0, {0, 2}, 7).ok());
  ASSERT_TRUE(book.grant(0, {2, 1}, 8).ok());
  ASSERT_TRUE(book.grant(1, {0, 1}, 7).ok());
  EXPECT_EQ(book.expire(7), 3);
  EXPECT_EQ(book.expire(7), 0);
  EXPECT_EQ(book.finish(0, {0, 2}, 7).code(), Code::kNotFound);
  ASSERT_TRUE(book.grant(0, {0, 2}, 8).ok());
  EXPECT_EQ(book.finish(0, {0, 2}, 7).code(), Code::kNotFound) << "the new holder's lease is not touched";
  EXPECT_TRUE(book.finish(0, {0, 3}, 8).ok());
}

TEST(LeaseBook, ExpiryLeavesFinishedWorkDone) {
  LeaseBook book(2);
  ASSERT_TRUE(book.grant(0, {0, 2}, 0).ok());
  ASSERT_TRUE(book.finish(0, {0, 1}, 0).ok());
  EXPECT_EQ(book.expire(0), 1);
  EXPECT_EQ(book.grant(0, {0, 1}, 1).code(), Code::kInvalid);
  EXPECT_TRUE(book.grant(0, {1, 1}, 1).ok());
}

TEST(LeaseBook, ACursorBringsBackWhatWasDoneAndFreesWhatWasUnderWay) {
  LeaseBook book(3, 100);
  for (const std::int64_t step : {100, 101, 103}) ASSERT_TRUE(book.grant(step, {0, 3}, 0).ok());
  ASSERT_TRUE(book.finish(100, {0, 3}, 0).ok());
  ASSERT_TRUE(book.finish(101, {1, 1}, 0).ok());
  ASSERT_TRUE(book.finish(103, {0, 3}, 0).ok());
  const auto text = book.cursor().dump();
  Result<LeaseBook> again = LeaseBook::from_cursor(*parse_json(text, "cursor"));
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->cursor().dump(), text);
  EXPECT_EQ(again->completed_steps(), 101);
  EXPECT_TRUE(again->is_step_done(103));
  EXPECT_EQ(again->finish(101, {0, 1}, 0).code(), Code::kNotFound) << "leases do not outlive a restart";
  EXPECT_EQ(again->grant(101, {1, 1}, 0).code(), Code::kInvalid) << "it is done";
  ASSERT_TRUE(again->grant(101, {0, 1}, 5).ok());
  ASSERT_TRUE(again->grant(101, {2, 1}, 5).ok());
  ASSERT_TRUE(again->grant(102, {0, 3}, 5).ok());
  ASSERT_TRUE(again->finish(101, {0, 1}, 5).ok());
  ASSERT_TRUE(again->finish(101, {2, 1}, 5).ok());
  EXPECT_EQ(again->completed_steps(), 102);
  ASSERT_TRUE(again->finish(102, {0, 3}, 5).ok());
  EXPECT_EQ(again->completed_steps(), 104);
}

TEST(LeaseBook, RefusesCorruptCursors) {
  const char* const corrupt[] = {
      R"({})",
      R"([])",
      R"({"num_shards":2,"completed_steps":0,"open_steps":[]})",
      R"({"num_shards":2,"completed_steps":0,"unfinished":[]})",
      R"({"num_shards":0,"completed_steps":0,"open_steps":[],"unfinished":[]})",
      R"({"num_shards":-3,"completed_steps":0,"open_steps":[],"unfinished":[]})",
      R"({"num_shards":2,"completed_steps":-1,"open_steps":[],"unfinished":[]})",
      R"({"num_shards":"2","completed_steps":0,"open_steps":[],"unfinished":[]})",
      R"({"num_shards":2,"completed_steps":0,"open_steps":[],"unfinished":[[0,0]]})",
      R"({"num_shards":2,"completed_steps":0,"open_steps":[0],"unfinished":[[0,2]]})",
      R"({"num_shards":2,"completed_steps":0,"open_steps":[0],"unfinished":[[0,-1]]})",
      R"({"num_shards":2,"completed_steps":0,"open_steps":[0],"unfinished":[[0]]})",
      R"({"num_shards":2,"completed_steps":5,"open_steps":[4],"unfinished":[[4,0]]})",
  };
  for (const char* text : corrupt) {
    const Result<LeaseBook> book = LeaseBook::from_cursor(*parse_json(text, "cursor"));
    EXPECT_EQ(book.status().code(), Code::kCorrupt) << text;
  }
}

TEST(LeaseBook, ACursorWithAFinishedOpenStepGoesOnAfterIt) {
  const auto json =
      parse_json(R"({"num_shards":2,"completed_steps":3,"open_steps":[3],"unfinished":[]})", "cursor");
  const Result<LeaseBook> book = LeaseBook::from_cursor(*json);
  ASSERT_TRUE(book.ok());
  EXPECT_EQ(book->completed_steps(), 4);
}

}  // namespace
}  // namespace trireme::data
