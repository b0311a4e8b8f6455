#include "trireme/base/function.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

namespace trireme {
namespace {

TEST(Function, CallsSmallAndLargeCallablesWithArguments) {
  int calls = 0;
  Function<int(int)> small = [&calls](int x) { return ++calls + x; };
  std::array<int, 50> many{};
  many[49] = 7;
  Function<int(int)> large = [many](int x) { return many[49] + x; };
  EXPECT_EQ(small(10), 11);
  EXPECT_EQ(large(1), 8);
  Function<int(int)> moved = std::move(large);
  EXPECT_FALSE(static_cast<bool>(large));
  EXPECT_EQ(moved(2), 9);
}

TEST(Function, HoldsMoveOnlyCapturesAndPassesMoveOnlyArguments) {
  auto owned = std::make_unique<int>(3);
  Function<int(std::unique_ptr<int>)> add = [own = std::move(owned)](std::unique_ptr<int> x) {
    return *own + *x;
  };
  EXPECT_EQ(add(std::make_unique<int>(4)), 7);
}

template <std::size_t kPadding>
void expect_destroyed_once() {
  auto alive = std::make_shared<int>(0);
  {
    Function<void()> first = [alive, pad = std::array<char, kPadding>{}] { (void)pad; };
    EXPECT_EQ(alive.use_count(), 2);
    Function<void()> second = std::move(first);
    Function<void()> third;
    third = std::move(second);
    EXPECT_EQ(alive.use_count(), 2);
    third = nullptr;
    EXPECT_EQ(alive.use_count(), 1);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(Function, DestroysWhatItHoldsExactlyOnceInlineAndOnTheHeap) {
  expect_destroyed_once<1>();
  expect_destroyed_once<200>();
}

TEST(FunctionDeathTest, CallingAnEmptyOneAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Function<void()> empty;
  EXPECT_DEATH(empty(), "call of an empty Function");
}

}  // namespace
}  // namespace trireme
