#include "trireme/net/stall_clock.h"

#include <gtest/gtest.h>

namespace trireme::net {
namespace {

constexpr Motion kNone{};

TEST(StallClock, RunsWhileNothingHappens) {
  StallClock clock(kSecond);
  EXPECT_EQ(clock.look(2 * kSecond, false, kNone), kSecond);
  EXPECT_EQ(clock.look(5 * kSecond, false, kNone), 4 * kSecond);
}

TEST(StallClock, BeginsAnewWithProgressAndWhileTheRankComputes) {
  StallClock clock(0);
  clock.note();
  EXPECT_EQ(clock.look(2 * kSecond, false, kNone), 0);
  EXPECT_EQ(clock.look(3 * kSecond, false, kNone), kSecond);
  EXPECT_EQ(clock.look(4 * kSecond, true, kNone), 0);
  EXPECT_EQ(clock.look(5 * kSecond, false, kNone), kSecond);
}

TEST(StallClock, BeginsAnewWithEveryByteThatMoved) {
  StallClock clock(0);
  EXPECT_EQ(clock.look(2 * kSecond, false, {.moved_bytes = 1}), 0);
  EXPECT_EQ(clock.look(3 * kSecond, false, {.moved_bytes = 1}), kSecond);
  EXPECT_EQ(clock.look(4 * kSecond, false, {.moved_bytes = 2}), 0);
}

TEST(StallClock, StandsWhileAMessageIsOnItsWay) {
  StallClock clock(0);
  for (TimeNs now = kSecond; now < 60 * kSecond; now += kSecond)
    EXPECT_EQ(clock.look(now, false, {.on_the_way = true}), 0);
  EXPECT_EQ(clock.look(62 * kSecond, false, kNone), 3 * kSecond);
}

}  // namespace
}  // namespace trireme::net
