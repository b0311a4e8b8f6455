#include "trireme/runtime/virtual/radix_heap.h"

#include <gtest/gtest.h>

#include <set>

#include "trireme/base/rng.h"

namespace trireme::runtime::virt {
namespace {

constexpr auto kNothing = [](int) { return false; };

TEST(RadixHeap, GivesEntriesByTimeAndEqualTimesInOrderOfTheirPushes) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Philox random(seed);
    RadixHeap<int> heap;
    std::set<std::pair<TimeNs, int>> expected;
    TimeNs now = 0;
    for (int i = 0; i < 2000; ++i) {
      if (expected.empty() || random.next_below(100) < 52) {
        // Near ones that collide, and far ones of every magnitude.
        const std::uint64_t reach = random.next_below(3) == 0 ? 4 : std::uint64_t{1} << random.next_below(40);
        const TimeNs when = now + 1 + static_cast<TimeNs>(random.next_u64() % reach);
        heap.push(when, i);
        expected.emplace(when, i);
      } else {
        now = heap.earliest(kNothing);
        ASSERT_EQ(now, expected.begin()->first) << "seed " << seed;
        ASSERT_LE(heap.at_least(), now);
        ASSERT_EQ(heap.pop(), expected.begin()->second) << "seed " << seed;
        expected.erase(expected.begin());
      }
      ASSERT_EQ(heap.size(), expected.size());
    }
  }
}

TEST(RadixHeap, ForgetsEntriesWhereverTheyAre) {
  Philox random(3);
  RadixHeap<int> heap;
  std::set<std::pair<TimeNs, int>> expected;
  for (int i = 0; i < 1000; ++i) {
    const TimeNs when = 1 + random.next_below(300);
    heap.push(when, i);
    if (i % 3 != 0) expected.emplace(when, i);
  }
  const auto third = [](int value) { return value % 3 == 0; };
  for (int popped = 0; popped < 200; ++popped) {
    EXPECT_EQ(heap.earliest(third), expected.begin()->first);
    EXPECT_EQ(heap.pop(), expected.begin()->second);
    expected.erase(expected.begin());
  }
  heap.forget(third);
  EXPECT_EQ(heap.size(), expected.size()) << "those of the present too";
  for (const auto& [when, value] : expected) {
    EXPECT_EQ(heap.earliest(kNothing), when);
    EXPECT_EQ(heap.pop(), value);
  }
  EXPECT_EQ(heap.earliest(kNothing), kForever);
}

TEST(RadixHeap, AnEntryAtForeverIsAsGoodAsNone) {
  RadixHeap<int> heap;
  heap.push(kForever, 1);
  EXPECT_EQ(heap.earliest(kNothing), kForever);
  heap.push(5, 2);
  EXPECT_EQ(heap.earliest(kNothing), 5);
  EXPECT_EQ(heap.pop(), 2);
  EXPECT_EQ(heap.earliest(kNothing), kForever);
}

}  // namespace
}  // namespace trireme::runtime::virt
