// Task: laziness, results, destruction and stack use.
#include "trireme/runtime/task.h"

#include <gtest/gtest.h>

#include <memory>

#include "trireme/base/status.h"

namespace trireme::runtime {
namespace {

struct Tracker {
  explicit Tracker(int& c) : count(c) {}
  Tracker(const Tracker&) = delete;
  ~Tracker() { ++count; }
  int& count;
};

// A place to suspend that the test resumes by hand.
struct Stop {
  std::coroutine_handle<> waiting;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) { waiting = h; }
  void await_resume() const noexcept {}
};

Task<int> answer() { co_return 42; }

TEST(Task, DoesNothingBeforeItIsStarted) {
  bool ran = false;
  {
    Task<void> task = [](bool& flag) -> Task<void> {
      flag = true;
      co_return;
    }(ran);
    EXPECT_TRUE(static_cast<bool>(task));
  }
  EXPECT_FALSE(ran);
}

TEST(Task, GivesItsResultToItsAwaiter) {
  int got = 0;
  Task<void> task = [](int& out) -> Task<void> {
    out = co_await answer();
    Task<int> named = answer();
    out += co_await named;
  }(got);
  task.start();
  EXPECT_TRUE(task.done());
  EXPECT_EQ(got, 84);
}

TEST(Task, CarriesMoveOnlyResultsAndFailures) {
  const auto make = [](bool fail) -> Task<Result<std::unique_ptr<int>>> {
    if (fail) co_return error(Code::kInvalid, "no");
    co_return std::make_unique<int>(5);
  };
  bool checked = false;
  Task<void> task = [](auto& source, bool& flag) -> Task<void> {
    auto good = co_await source(false);
    EXPECT_EQ(**good, 5);
    auto bad = co_await source(true);
    EXPECT_EQ(bad.status().code(), Code::kInvalid);
    flag = true;
  }(make, checked);
  task.start();
  EXPECT_TRUE(checked);
}

TEST(Task, AChildThatSuspendsResumesItsParentWhenItEnds) {
  Stop stop;
  int state = 0;
  const auto child = [](Stop& s, int& st) -> Task<int> {
    st = 1;
    co_await s;
    st = 2;
    co_return 7;
  };
  Task<void> task = [](auto& make, Stop& s, int& st) -> Task<void> {
    const int got = co_await make(s, st);
    st += got;
  }(child, stop, state);
  task.start();
  EXPECT_EQ(state, 1);
  EXPECT_FALSE(task.done());
  stop.waiting.resume();
  EXPECT_EQ(state, 9);
  EXPECT_TRUE(task.done());
}

TEST(Task, DestroyingASuspendedTaskDestroysTheWholeChainOfFrames) {
  Stop stop;
  int destroyed = 0;
  {
    const auto child = [](Stop& s, int& count) -> Task<void> {
      const Tracker inner(count);
      co_await s;
    };
    Task<void> task = [](auto& make, Stop& s, int& count) -> Task<void> {
      const Tracker outer(count);
      co_await make(s, count);
      ADD_FAILURE() << "resumed";
    }(child, stop, destroyed);
    task.start();
    EXPECT_EQ(destroyed, 0);
  }
  EXPECT_EQ(destroyed, 2);
}

TEST(Task, AssignmentDestroysTheOldFrame) {
  Stop stop;
  int destroyed = 0;
  Task<void> task = [](Stop& s, int& count) -> Task<void> {
    const Tracker tracker(count);
    co_await s;
  }(stop, destroyed);
  task.start();
  task = Task<void>();
  EXPECT_EQ(destroyed, 1);
  EXPECT_FALSE(static_cast<bool>(task));
}

TEST(Task, ALoopOverReadyChildrenUsesNoStack) {
  std::int64_t sum = 0;
  Task<void> task = [](std::int64_t& total) -> Task<void> {
    for (int i = 0; i < 200'000; ++i) total += co_await answer();
  }(sum);
  task.start();
  EXPECT_EQ(sum, 8'400'000);
}

TEST(Task, ALoopOverSuspendingChildrenUsesNoStack) {
  Stop stop;
  int rounds = 0;
  Task<void> task = [](Stop& s, int& count) -> Task<void> {
    const auto child = [](Stop& inner) -> Task<void> { co_await inner; };
    for (; count < 100'000; ++count) co_await child(s);
  }(stop, rounds);
  task.start();
  while (!task.done()) stop.waiting.resume();
  EXPECT_EQ(rounds, 100'000);
}

}  // namespace
}  // namespace trireme::runtime
