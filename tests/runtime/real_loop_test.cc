// The loop of the real Runtime: order of callbacks and timers, wake-ups, idleness, destruction.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <thread>

#include "trireme/runtime/network.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/sync.h"

namespace trireme::runtime {
namespace {

RealOptions small_options(TimeNs spin_ns = 0) {
  RealOptions options;
  options.compute_threads = 2;
  options.spin_ns = spin_ns;
  return options;
}

TEST(RealLoop, RunEndsWhenItsTaskEndsAndMayBeCalledAgain) {
  auto rt = make_real_runtime(small_options());
  int runs = 0;
  for (int i = 0; i < 3; ++i)
    rt->run([](int& count) -> Task<void> {
      ++count;
      co_return;
    }(runs));
  EXPECT_EQ(runs, 3);
}

TEST(RealLoop, SpawnAndPostNeverRunInsideTheCallThatCausesThem) {
  auto rt = make_real_runtime(small_options());
  std::vector<int> order;
  rt->run([](Runtime& r, std::vector<int>& log) -> Task<void> {
    OneShot<bool> end(r);
    r.post([&] { log.push_back(2); });
    r.spawn([](std::vector<int>& l, OneShot<bool>& e) -> Task<void> {
      l.push_back(3);
      e.set(true);
      co_return;
    }(log, end));
    log.push_back(1);
    co_await end.wait_until(kForever);
    log.push_back(4);
  }(*rt, order));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

TEST(RealLoop, TimersFireByTimeThenByCreationAndNotWhenCancelled) {
  auto rt = make_real_runtime(small_options());
  std::vector<int> order;
  rt->run([](Runtime& r, std::vector<int>& log) -> Task<void> {
    const TimeNs t = r.now() + 2 * kMilli;
    r.call_at(t + 1000, [&] { log.push_back(4); });
    r.call_at(t, [&] { log.push_back(1); });
    const TimerId cancelled = r.call_at(t, [&] { log.push_back(99); });
    r.call_at(t, [&] { log.push_back(2); });
    TimerId late = 0;
    r.call_at(t, [&] {
      log.push_back(3);
      r.cancel_timer(late);
    });
    late = r.call_at(t, [&] { log.push_back(98); });
    r.cancel_timer(cancelled);
    r.cancel_timer(cancelled);
    r.cancel_timer(123456789);
    co_await r.sleep_until(t + 2000);
  }(*rt, order));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

TEST(RealLoop, AFiredTimersIdDoesNotCancelTheTimerThatReusesItsPlace) {
  auto rt = make_real_runtime(small_options());
  bool second = false;
  rt->run([](Runtime& r, bool& fired) -> Task<void> {
    OneShot<bool> first_fired(r);
    const TimerId first = r.call_at(0, [&] { first_fired.set(true); });
    co_await first_fired.wait_until(kForever);
    r.call_at(0, [&] { fired = true; });
    r.cancel_timer(first);
    co_await r.sleep_for(0);
  }(*rt, second));
  EXPECT_TRUE(second);
}

TEST(RealLoop, ATimerThatSetsItselfAgainDoesNotStarvePosts) {
  auto rt = make_real_runtime(small_options());
  rt->run([](Runtime& r) -> Task<void> {
    OneShot<bool> end(r);
    bool stop = false;
    std::function<void()> again = [&] {
      if (!stop) r.call_at(0, [&] { again(); });
    };
    again();
    std::thread([&] { r.post([&] { end.set(true); }); }).join();
    co_await end.wait_until(kForever);
    stop = true;
    co_await r.sleep_for(0);
    co_await r.sleep_for(0);
  }(*rt));
}

// Every post must wake the blocked loop; a lost wake-up hangs here. With spin_ns = 0 the loop blocks between
// posts.
void hammer(TimeNs spin_ns, int num_threads, int posts_each) {
  auto rt = make_real_runtime(small_options(spin_ns));
  std::vector<int> seen(static_cast<std::size_t>(num_threads), 0);
  bool in_order = true;
  rt->run([](Runtime& r, std::vector<int>& counts, bool& ordered, int each) -> Task<void> {
    OneShot<bool> end(r);
    int left = static_cast<int>(counts.size()) * each;
    std::vector<std::thread> threads;
    for (int t = 0; t < static_cast<int>(counts.size()); ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < each; ++i)
          r.post([&, t, i] {
            int& count = counts[static_cast<std::size_t>(t)];
            ordered &= count++ == i;
            if (--left == 0) end.set(true);
          });
      });
    co_await end.wait_until(kForever);
    for (auto& thread : threads) thread.join();
  }(*rt, seen, in_order, posts_each));
  EXPECT_TRUE(in_order) << "posts of one thread run in its order";
  for (const int count : seen) EXPECT_EQ(count, posts_each);
}

TEST(RealLoop, ManyPostsFromManyThreadsAllRunInOrder) {
  hammer(/*spin_ns=*/0, 4, 5000);
  hammer(/*spin_ns=*/20 * kMicro, 4, 5000);
}

// Two loops and no spinning: each post finds the other side blocked or about to block.
TEST(RealLoop, PingPongBetweenBlockingLoopsLosesNoWakeUp) {
  constexpr int kRounds = 3000;
  auto a = make_real_runtime(small_options()), b = make_real_runtime(small_options());
  struct Side {
    explicit Side(Runtime& r) : rt(r), end(r) {}
    Runtime& rt;
    OneShot<bool> end;
    int hits = 0;
  };
  Side sides[2] = {Side(*a), Side(*b)};
  std::function<void(int)> hit = [&](int who) {
    Side& me = sides[who];
    if (++me.hits <= kRounds) sides[1 - who].rt.post([&, who] { hit(1 - who); });
    if (me.hits == kRounds) me.end.set(true);
  };
  a->post([&] { hit(0); });
  auto body = [&](RealRuntime& rt, Side& side) {
    rt.run([](Side& s) -> Task<void> { co_await s.end.wait_until(kForever); }(side));
  };
  run_in_threads({[&] { body(*a, sides[0]); }, [&] { body(*b, sides[1]); }});
  EXPECT_GE(sides[0].hits, kRounds);
  EXPECT_GE(sides[1].hits, kRounds);
}

TEST(RealLoop, AnIdleLoopUsesNoProcessorTime) {
  auto rt = make_real_runtime(small_options(50 * kMicro));
  const auto thread_cpu_ns = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * kSecond +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * kMicro;
  };
  TimeNs used = 0;
  rt->run([](Runtime& r, auto cpu, TimeNs& out) -> Task<void> {
    co_await r.sleep_for(kMilli);
    const TimeNs before = cpu();
    co_await r.sleep_for(300 * kMilli);
    out = cpu() - before;
  }(*rt, thread_cpu_ns, used));
  EXPECT_LT(used, 300 * kMilli / 20);  // a loop that spins would use all of it
}

class CountingPoller : public Poller {
 public:
  bool poll_on_loop() override {
    ++polls;
    return work.exchange(false) && (++progress, shot->set(true), true);
  }
  std::atomic<bool> work{false};
  OneShot<bool>* shot = nullptr;
  int polls = 0, progress = 0;
};

TEST(RealLoop, ADoorbellMakesTheBlockedLoopAskItsPollers) {
  auto rt = make_real_runtime(small_options());
  CountingPoller poller;
  rt->run([](Runtime& r, CountingPoller& p) -> Task<void> {
    auto bell = r.network().make_doorbell();
    OneShot<bool> seen(r);
    p.shot = &seen;
    r.network().add_poller(&p);
    std::thread ringer([&] {
      p.work = true;
      (*bell)->ring();
    });
    co_await seen.wait_until(kForever);
    ringer.join();
    r.network().remove_poller(&p);
    const int polls = p.polls;
    co_await r.sleep_for(kMilli);
    EXPECT_EQ(p.polls, polls) << "a removed poller is not asked again";
  }(*rt, poller));
  EXPECT_EQ(poller.progress, 1);
}

struct Tracker {
  explicit Tracker(int& c) : count(c) {}
  ~Tracker() { ++count; }
  int& count;
};

TEST(RealLoop, DestroyingTheRuntimeDestroysSuspendedTasksWithoutResumingThem) {
  int destroyed = 0, resumed = 0;
  {
    auto rt = make_real_runtime(small_options());
    const auto sleeper = [](Runtime& r, int& gone, int& woke) -> Task<void> {
      const Tracker tracker(gone);
      OneShot<bool> never(r);
      co_await never.wait_until(r.now() + 3600 * kSecond);
      ++woke;
    };
    const auto inner = [&](Runtime& r, int& gone, int& woke) -> Task<void> {
      const Tracker tracker(gone);
      co_await sleeper(r, gone, woke);
      ++woke;
    };
    rt->run([](Runtime& r, auto& body, int& gone, int& woke) -> Task<void> {
      r.spawn(body(r, gone, woke));
      co_await r.sleep_for(kMilli);
      r.spawn(body(r, gone, woke));  // never even started: its parameters die, its body does not run
    }(*rt, inner, destroyed, resumed));
  }
  EXPECT_GE(destroyed, 2);
  EXPECT_EQ(resumed, 0);
}

TEST(RealLoop, TheClockStartsNearZeroAndDoesNotGoBack) {
  auto rt = make_real_runtime(small_options());
  TimeNs last = rt->now();
  EXPECT_GE(last, 0);
  EXPECT_LT(last, 600 * kSecond);
  for (int i = 0; i < 1000; ++i) {
    const TimeNs now = rt->now();
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_GT(rt->unix_time_ns(), 1'600'000'000 * kSecond);
}

TEST(RealLoop, FaultPointsStrikeOnlyAtTheirSiteAndIndex) {
  RealOptions options = small_options();
  options.faults = {{RealFault::Kind::kMiscall, "collective", 7}, {RealFault::Kind::kError, "disk", 0}};
  auto rt = make_real_runtime(options);
  EXPECT_EQ(rt->fault_point("collective", 6), FaultAction::kNone);
  EXPECT_EQ(rt->fault_point("collective", 7), FaultAction::kMiscall);
  EXPECT_EQ(rt->fault_point("disk", 0), FaultAction::kError);
  EXPECT_EQ(rt->fault_point("disk", 7), FaultAction::kNone);
}

TEST(RealLoop, LogLinesReachTheSink) {
  RealOptions options = small_options();
  std::vector<std::string> lines;
  options.log_sink = [&](std::string_view line) { lines.emplace_back(line); };
  auto rt = make_real_runtime(options);
  rt->log("hello");
  EXPECT_EQ(lines, std::vector<std::string>{"hello"});
}

}  // namespace
}  // namespace trireme::runtime
