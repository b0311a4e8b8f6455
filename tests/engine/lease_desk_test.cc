#include "trireme/engine/lease_desk.h"

#include <gtest/gtest.h>

#include <set>

namespace trireme::engine {
namespace {

using Work = LeaseDesk::Work;

LeaseDesk desk(Work work, int workers) { return {work, workers, data::LeaseBook(workers)}; }

TEST(LeaseDesk, FreeUnitsGoInOrderToWhoeverAsks) {
  LeaseDesk d = desk(Work::kFree, 2);
  d.open_round(2);
  EXPECT_EQ(*d.next(1).unit, (Unit{0, 0}));
  EXPECT_EQ(*d.next(1).unit, (Unit{0, 1}));
  EXPECT_EQ(*d.next(0).unit, (Unit{1, 0}));
  EXPECT_TRUE(d.finish(1, {0, 0}));
  EXPECT_EQ(*d.next(1).unit, (Unit{1, 1}));
  EXPECT_FALSE(d.is_done(2));
  for (const auto& [worker, unit] : {std::pair{1, Unit{0, 1}}, {0, Unit{1, 0}}, {1, Unit{1, 1}}})
    EXPECT_TRUE(d.finish(worker, unit));
  EXPECT_TRUE(d.is_done(2));
  EXPECT_EQ(d.book().completed_steps(), 2);
  EXPECT_FALSE(d.next(0).unit);
  d.open_round(3);
  EXPECT_EQ(*d.next(0).unit, (Unit{2, 0}));
}

TEST(LeaseDesk, OwnUnitsAreTheWorkersShardOfEveryBatch) {
  LeaseDesk d = desk(Work::kOwn, 3);
  d.open_round(2);
  EXPECT_EQ(*d.next(2).unit, (Unit{0, 2}));
  EXPECT_EQ(*d.next(2).unit, (Unit{1, 2}));
  EXPECT_FALSE(d.next(2).unit);
  EXPECT_EQ(*d.next(0).unit, (Unit{0, 0}));
}

TEST(LeaseDesk, WhatALostWorkerHeldIsGivenToOthersFirst) {
  LeaseDesk d = desk(Work::kFree, 2);
  d.open_round(3);
  (void)d.next(1);
  (void)d.next(1);
  d.lose(1);
  EXPECT_FALSE(d.next(1).unit);
  EXPECT_FALSE(d.finish(1, {0, 0})) << "a late answer counts for nothing";
  EXPECT_EQ(*d.next(0).unit, (Unit{0, 0}));
  EXPECT_EQ(*d.next(0).unit, (Unit{0, 1}));
  EXPECT_EQ(*d.next(0).unit, (Unit{1, 0}));
}

TEST(LeaseDesk, TheShareOfALostWorkerWithWorkOfItsOwnIsDropped) {
  LeaseDesk d = desk(Work::kOwn, 2);
  d.open_round(2);
  (void)d.next(1);
  d.lose(1);
  for (std::int64_t b = 0; b < 2; ++b) EXPECT_TRUE(d.finish(0, *d.next(0).unit));
  EXPECT_TRUE(d.is_done(2));
  d.open_round(4);
  EXPECT_EQ(d.num_dropped(), 2);
  EXPECT_EQ(d.book().completed_steps(), 2);
}

TEST(LeaseDesk, AnIdleWorkerTakesTheLastUnitThatAnotherHasNotBegun) {
  LeaseDesk d = desk(Work::kFree, 2);
  d.open_round(2);
  for (int i = 0; i < 3; ++i) (void)d.next(1);
  EXPECT_EQ(*d.next(0).unit, (Unit{1, 1}));
  EXPECT_TRUE(d.finish(0, {1, 1}));
  const Grant stolen = d.next(0);
  EXPECT_EQ(*stolen.unit, (Unit{1, 0}));
  EXPECT_EQ(stolen.taken_from, 1);
  EXPECT_FALSE(d.finish(1, {1, 0})) << "it is another's now";
  EXPECT_TRUE(d.finish(0, {1, 0}));
  EXPECT_EQ(*d.next(0).unit, (Unit{0, 1}));
  EXPECT_TRUE(d.finish(0, {0, 1}));
  EXPECT_FALSE(d.next(0).unit) << "the only one left may have begun";
  EXPECT_EQ(d.num_stolen(), 2);
  EXPECT_TRUE(d.finish(1, {0, 0}));
  EXPECT_TRUE(d.is_done(2));
}

TEST(LeaseDesk, NothingIsTakenFromWorkersThatMayHaveBegunAllTheyHold) {
  LeaseDesk d(Work::kFree, 2, data::LeaseBook(2), /*at_once=*/2);
  d.open_round(2);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(d.next(1).unit);
  EXPECT_FALSE(d.next(0).unit);
  EXPECT_EQ(d.num_stolen(), 0);
}

TEST(LeaseDesk, WhoWasToldToMeetGetsNothingMoreOfThatRound) {
  LeaseDesk d = desk(Work::kFree, 3);
  d.open_round(1);
  for (int i = 0; i < 3; ++i) (void)d.next(1);
  const Unit mine = *d.next(0).unit;
  EXPECT_FALSE(d.next(0).unit) << "it holds one itself";
  EXPECT_TRUE(d.finish(0, mine));
  EXPECT_FALSE(d.next(0).unit) << "it may be at the meeting already";
  EXPECT_TRUE(d.next(2).unit);
  d.open_round(2);
  EXPECT_TRUE(d.next(0).unit);
}

TEST(LeaseDesk, AStopLetsWorkersWithWorkOfTheirOwnBecomeLevel) {
  LeaseDesk d = desk(Work::kOwn, 2);
  d.open_round(100);
  for (int i = 0; i < 5; ++i) (void)d.next(0);
  (void)d.next(1);
  d.stop();
  EXPECT_FALSE(d.next(0).unit);
  int more = 0;
  while (d.next(1).unit) ++more;
  EXPECT_EQ(more, 4);
}

TEST(LeaseDesk, AStopEndsFreeWorkAtOnceAndTheRestIsLeftForLater) {
  LeaseDesk d = desk(Work::kFree, 2);
  d.open_round(100);
  const Unit held = *d.next(0).unit;
  d.stop();
  EXPECT_FALSE(d.next(0).unit);
  EXPECT_FALSE(d.next(1).unit);
  EXPECT_TRUE(d.finish(0, held));
  const auto book = data::LeaseBook::from_cursor(d.book().cursor());
  ASSERT_TRUE(book.ok());
  LeaseDesk again(Work::kFree, 2, *book);
  again.open_round(2);
  std::set<std::pair<std::int64_t, std::int32_t>> left;
  for (Grant g = again.next(0); g.unit; g = again.next(0)) left.insert({g.unit->batch, g.unit->shard});
  EXPECT_EQ(left, (std::set<std::pair<std::int64_t, std::int32_t>>{{0, 1}, {1, 0}, {1, 1}}));
}

TEST(LeaseDesk, TheRestOfARoundCanBeDropped) {
  LeaseDesk d = desk(Work::kOwn, 2);
  d.open_round(4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(d.finish(0, *d.next(0).unit));
  EXPECT_TRUE(d.finish(1, *d.next(1).unit));
  EXPECT_EQ(d.drop_rest(), 3);
  EXPECT_TRUE(d.is_done(4));
  EXPECT_EQ(d.book().completed_steps(), 4);
  d.open_round(5);
  EXPECT_EQ(*d.next(1).unit, (Unit{4, 1}));
}

}  // namespace
}  // namespace trireme::engine
