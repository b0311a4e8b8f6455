#include "trireme/plan/slots.h"

#include <gtest/gtest.h>

#include <map>

namespace trireme::plan {
namespace {

using Kinds = std::vector<SlotKind>;

void expect_no_two_share(const Kinds& kinds) {
  std::map<Slot, std::string_view> users;
  for (const SlotUser& user : users_of(kinds)) {
    EXPECT_LT(user.slot, 0xFFFF) << user.what << ": the last slot is the group's own";
    const auto [at, fresh] = users.emplace(user.slot, user.what);
    EXPECT_TRUE(fresh) << user.what << " and " << at->second << " share slot " << user.slot << " with "
                       << kinds.size() << " buckets";
  }
}

TEST(Slots, OfARunWithOneKindOfBucketsAreOfOneUserEach) {
  for (const std::size_t buckets : {std::size_t{1}, std::size_t{2}, std::size_t{63}, kMostBuckets})
    for (int kind = 0; kind <= static_cast<int>(SlotKind::kLetters); ++kind)
      expect_no_two_share(Kinds(buckets, static_cast<SlotKind>(kind)));
}

TEST(Slots, OfARunWhoseBucketsHaveSumsOfTheirOwnAreOfOneUserEach) {
  constexpr SlotKind kSums[] = {SlotKind::kDense, SlotKind::kCoded, SlotKind::kLowRank, SlotKind::kDevice};
  for (int mix = 0; mix < 4 * 4 * 4; ++mix) {
    Kinds kinds;
    for (int rest = mix, b = 0; b < 3; ++b, rest /= 4) kinds.push_back(kSums[rest % 4]);
    expect_no_two_share(kinds);
  }
}

TEST(Slots, StayWhereMessagesOfEarlierVersionsHadThem) {
  const Slots slots{10};
  EXPECT_EQ(slots.sum(3), 3);
  EXPECT_EQ(slots.sizes(3), 13);
  EXPECT_EQ(slots.second_sum(3), 13);
  EXPECT_EQ(slots.summed(3), 13);
  EXPECT_EQ(slots.updated(3), 13);
  EXPECT_EQ(slots.lengths(3), 33);
  EXPECT_EQ(slots.rest(), 20);
  EXPECT_EQ(slots.gathered(3), 13);
  EXPECT_EQ(slots.gathered_again(3), 33);
  EXPECT_EQ(slots.read(3), 23);
  EXPECT_EQ(slots.mean(3), 3);
  EXPECT_EQ(slots.settled(3), 13);
  EXPECT_EQ(slots.change(3), 23);
  EXPECT_EQ(slots.change_sizes(3), 33);
  EXPECT_EQ(slots.residuals(3), 0x8003);
  EXPECT_EQ(Slots::turn(13, 1), 13 + 0x2000);
  EXPECT_EQ(Slots::turns(13), (std::array<Slot, kTurns>{13, 13 + 0x2000, 13 + 0x4000, 13 + 0x6000}));
  EXPECT_EQ(Slots::shard_state(3, 2), 0xA000 + 3 * 0x800 + 2);
}

TEST(Slots, MoreBucketsThanThereAreNumbersForAreRefused) {
  EXPECT_TRUE(check_num_buckets(kMostBuckets).ok());
  EXPECT_EQ(check_num_buckets(kMostBuckets + 1).code(), Code::kInvalid);
}

}  // namespace
}  // namespace trireme::plan
