#include "trireme/prepare/stage_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::prepare {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// F of two segments, B of both, and W, which reads nothing; bucket 1 is of both.
const WeightUses kUses{{}, {0, 1}, {1, 2}, {1, 2}, {}, {0, 1}, {}};

TEST(WeightUses, TheNextOneReadsSomething) {
  EXPECT_EQ(next_use(kUses, 0), 1U);
  EXPECT_EQ(next_use(kUses, 4), 5U);
  EXPECT_EQ(next_use(kUses, 6), kUses.size()) << "none";
  EXPECT_EQ(next_use(kUses, 99), kUses.size());
}

TEST(WeightUses, GatherWhatTheOneBeforeHasNotRead) {
  EXPECT_THAT(gathers_of(kUses), ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(gathers_of({}), IsEmpty());
}

TEST(WeightUses, HaveTheirOwnAndThoseOfTheNextAtATime) {
  EXPECT_EQ(most_at_once(kUses, std::vector<std::int64_t>{1, 10, 100}), 111);
  EXPECT_EQ(most_at_once({{0}, {}, {1}, {2}}, std::vector<std::int64_t>{5, 1, 3}), 6);
  EXPECT_EQ(most_at_once({{}, {}}, std::vector<std::int64_t>{}), 0);
}

}  // namespace
}  // namespace trireme::prepare
