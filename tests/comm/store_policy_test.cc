#include "trireme/comm/store_policy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "trireme/comm/copy.h"

namespace trireme::comm {
namespace {

// Plays calls whose durations are known and counts how often the better way was used.
int times_better_was_used(StorePolicy& policy, std::uint64_t bytes, bool streaming_is_better, int calls) {
  int used = 0;
  for (int i = 0; i < calls; ++i) {
    const bool streaming = policy.choose(bytes);
    const bool good = streaming == streaming_is_better;
    policy.learn(bytes, streaming, static_cast<TimeNs>(bytes / (good ? 8 : 4)));
    used += good ? 1 : 0;
  }
  return used;
}

TEST(StorePolicy, UsesTheBetterOneAndTriesTheOther) {
  for (const bool streaming_is_better : {false, true}) {
    StorePolicy policy;
    const int used = times_better_was_used(policy, 1 << 20, streaming_is_better, 320);
    EXPECT_GE(used, 320 - 2 - 10);
    EXPECT_LT(used, 320);
  }
}

TEST(StorePolicy, FollowsCoresThatMove) {
  StorePolicy policy;
  times_better_was_used(policy, 1 << 20, false, 100);
  times_better_was_used(policy, 1 << 20, true, 300);
  EXPECT_GE(times_better_was_used(policy, 1 << 20, true, 100), 95);
}

TEST(StorePolicy, LearnsEverySizeByItself) {
  StorePolicy policy;
  times_better_was_used(policy, 64 << 10, false, 50);
  times_better_was_used(policy, 64 << 20, true, 50);
  EXPECT_GE(times_better_was_used(policy, 64 << 10, false, 31), 29);
  EXPECT_GE(times_better_was_used(policy, 64 << 20, true, 31), 29);
  EXPECT_FALSE(policy.choose(~std::uint64_t{0}));  // the largest size has a class
}

TEST(Copy, MovesEveryByteFromAndToAnyPlace) {
  std::vector<std::byte> from(1'000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7);
  for (const auto copy : {copy_bytes, copy_streaming})
    for (std::size_t offset = 0; offset < 70; offset += 3)
      for (const std::size_t bytes : {0, 1, 63, 64, 65, 200, 700}) {
        std::vector<std::byte> to(1'000, std::byte{0xEE});
        copy(to.data() + offset, from.data() + offset / 2, bytes);
        EXPECT_EQ(std::memcmp(to.data() + offset, from.data() + offset / 2, bytes), 0);
        EXPECT_EQ(to[offset + bytes], std::byte{0xEE});
        if (offset > 0) {
          EXPECT_EQ(to[offset - 1], std::byte{0xEE});
        }
      }
}

}  // namespace
}  // namespace trireme::comm
