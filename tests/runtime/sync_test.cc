// OneShot, CancelToken and when_all, on a real Runtime.
#include "trireme/runtime/sync.h"

#include <gtest/gtest.h>

#include "trireme/runtime/real/real_runtime.h"

namespace trireme::runtime {
namespace {

template <typename Body>
void on_loop(Body body) {
  RealOptions options;
  options.compute_threads = 1;
  options.spin_ns = 0;
  auto rt = make_real_runtime(options);
  rt->run(body(*rt));
}

TEST(OneShot, GivesTheFirstValueAndIgnoresLaterOnes) {
  on_loop([](Runtime& r) -> Task<void> {
    OneShot<int> shot(r);
    EXPECT_FALSE(shot.is_set());
    shot.set(1);
    shot.set(2);
    EXPECT_TRUE(co_await shot.wait_until(kForever));
    EXPECT_EQ(shot.value(), 1);
  });
}

TEST(OneShot, ResumesItsWaiterFromTheLoopNotInsideSet) {
  on_loop([](Runtime& r) -> Task<void> {
    OneShot<int> shot(r);
    bool inside = false;
    r.post([&] {
      inside = true;
      shot.set(5);
      inside = false;
    });
    EXPECT_TRUE(co_await shot.wait_until(r.now() + 3600 * kSecond));
    EXPECT_FALSE(inside);
    EXPECT_EQ(shot.value(), 5);
  });
}

TEST(OneShot, ADeadlineWithoutAValueGivesFalseAndALateValueIsHarmless) {
  on_loop([](Runtime& r) -> Task<void> {
    OneShot<int> shot(r);
    EXPECT_FALSE(co_await shot.wait_until(r.now() + 1000));
    shot.set(3);
    co_await r.sleep_for(0);
    EXPECT_TRUE(co_await shot.wait_until(r.now() + 1000)) << "it may be waited for again";
    EXPECT_EQ(shot.value(), 3);
  });
}

// A second wake-up of the first wait would end the second one.
Task<void> wait_for_both(OneShot<int>& first, TimeNs until, OneShot<int>& second, int& resumed) {
  co_await first.wait_until(until);
  ++resumed;
  co_await second.wait_until(kForever);
  ++resumed;
}

TEST(OneShot, SetAndDeadlineInTheSameTurnResumeTheWaiterOnce) {
  on_loop([](Runtime& r) -> Task<void> {
    for (const bool set_first : {true, false}) {
      OneShot<int> shot(r), later(r);
      int resumed = 0;
      const TimeNs due = r.now();  // both timers fire in the next turn
      const auto set = [&] { r.call_at(due, [&] { shot.set(1); }); };
      if (set_first) set();
      Task<void> waiter = wait_for_both(shot, due, later, resumed);
      waiter.start();
      if (!set_first) set();
      co_await r.sleep_until(due + kMilli);
      EXPECT_TRUE(shot.is_set());
      EXPECT_EQ(resumed, 1) << (set_first ? "set, then the deadline" : "the deadline, then set");
      later.set(1);
      co_await r.sleep_until(r.now() + kMilli);
      EXPECT_EQ(resumed, 2);
    }
  });
}

TEST(OneShot, DestroyedAfterSetItsPostedWakeUpDoesNothing) {
  on_loop([](Runtime& r) -> Task<void> {
    auto shot = std::make_unique<OneShot<int>>(r);
    Task<void> waiter = [](OneShot<int>& s) -> Task<void> {
      co_await s.wait_until(kForever);
      ADD_FAILURE() << "resumed";
    }(*shot);
    waiter.start();
    shot->set(1);
    waiter = Task<void>();
    shot.reset();
    co_await r.sleep_for(0);
  });
}

TEST(OneShot, AWaiterDestroyedBeforeTheValueOrTheDeadlineIsForgotten) {
  on_loop([](Runtime& r) -> Task<void> {
    OneShot<int> shot(r);
    const auto wait = [](OneShot<int>& s, TimeNs deadline) -> Task<void> {
      co_await s.wait_until(deadline);
      ADD_FAILURE() << "resumed";
    };
    const TimeNs soon = r.now() + 1000;
    for (const TimeNs deadline : {soon, kForever}) {
      Task<void> waiter = wait(shot, deadline);
      waiter.start();
    }
    co_await r.sleep_until(soon + 1000);
    shot.set(1);
    co_await r.sleep_for(0);
    EXPECT_TRUE(co_await shot.wait_until(kForever)) << "a new waiter is welcome";
  });
}

TEST(Sleep, ADestroyedSleeperDoesNotWake) {
  on_loop([](Runtime& r) -> Task<void> {
    const TimeNs when = r.now() + 1000;
    {
      Task<void> sleeper = [](Runtime& rt, TimeNs until) -> Task<void> {
        co_await rt.sleep_until(until);
        ADD_FAILURE() << "resumed";
      }(r, when);
      sleeper.start();
    }
    co_await r.sleep_until(when + 1000);
  });
}

TEST(CancelToken, RunsItsCallbacksOnceInOrderWithTheFirstReason) {
  CancelToken token;
  const CancelToken copy = token;
  std::vector<int> order;
  token.on_cancel([&] { order.push_back(1); });
  const auto dropped = token.on_cancel([&] { order.push_back(99); });
  token.on_cancel([&] { order.push_back(2); });
  token.forget(dropped);
  token.cancel(error(Code::kCancelled, "first"));
  token.cancel(error(Code::kCancelled, "second"));
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_TRUE(copy.cancelled());
  EXPECT_EQ(copy.reason().message(), "first");
}

TEST(CancelToken, ACallbackMayForgetALaterOneAndDropTheToken) {
  auto token = std::make_unique<CancelToken>();
  int runs = 0;
  std::uint64_t second = 0;
  token->on_cancel([&] {
    ++runs;
    token->forget(second);
    token.reset();
  });
  second = token->on_cancel([&] { runs += 100; });
  token->cancel(error(Code::kCancelled, "stop"));
  EXPECT_EQ(runs, 1);
}

TEST(CancelToken, ACancelledTokenTellsLateListenersAtOnce) {
  CancelToken token;
  token.cancel(error(Code::kCancelled, "stop"));
  bool told = false;
  token.on_cancel([&] { told = true; });
  EXPECT_TRUE(told);
}

Task<Status> after(Runtime& r, TimeNs delay, Status result, int& running, int& peak) {
  peak = std::max(peak, ++running);
  co_await r.sleep_for(delay);
  --running;
  co_return result;
}

TEST(WhenAll, RunsAllAtTheSameTimeAndReportsTheFirstFailureByPosition) {
  on_loop([](Runtime& r) -> Task<void> {
    int running = 0, peak = 0;
    std::vector<Task<Status>> tasks;
    tasks.push_back(after(r, 2000, Status(), running, peak));
    tasks.push_back(after(r, 3000, error(Code::kInvalid, "by position"), running, peak));
    tasks.push_back(after(r, 1000, error(Code::kInvalid, "by time"), running, peak));
    const Status all = co_await when_all(r, std::move(tasks));
    EXPECT_EQ(all.message(), "by position");
    EXPECT_EQ(peak, 3);
    EXPECT_EQ(running, 0);
  });
}

TEST(WhenAll, OfNothingAndOfReadyTasksEndsAtOnce) {
  on_loop([](Runtime& r) -> Task<void> {
    const Status none = co_await when_all(r, {});
    EXPECT_TRUE(none.ok());
    std::vector<Task<Status>> tasks;
    for (int i = 0; i < 3; ++i) tasks.push_back([]() -> Task<Status> { co_return Status(); }());
    const Status ready = co_await when_all(r, std::move(tasks));
    EXPECT_TRUE(ready.ok());
  });
}

TEST(WhenAll, DestroyedHalfWayItDestroysItsTasks) {
  on_loop([](Runtime& r) -> Task<void> {
    int running = 0, peak = 0;
    {
      std::vector<Task<Status>> tasks;
      for (int i = 0; i < 3; ++i) tasks.push_back(after(r, 1000, Status(), running, peak));
      Task<void> all = [](Runtime& rt, std::vector<Task<Status>> many) -> Task<void> {
        (void)co_await when_all(rt, std::move(many));
        ADD_FAILURE() << "resumed";
      }(r, std::move(tasks));
      all.start();
      EXPECT_EQ(running, 3);
    }
    co_await r.sleep_for(5000);
    EXPECT_EQ(running, 3) << "their frames are gone, so none went on";
  });
}

}  // namespace
}  // namespace trireme::runtime
