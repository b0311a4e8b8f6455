// The compute pool of the real Runtime.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/sync.h"

namespace trireme::runtime {
namespace {

std::unique_ptr<RealRuntime> runtime_with(int threads, TimeNs spin_ns = 0) {
  RealOptions options;
  options.compute_threads = threads;
  options.spin_ns = spin_ns;
  return make_real_runtime(options);
}

TEST(RealCompute, RunsOffTheLoopAndResumesOnIt) {
  auto rt = runtime_with(2);
  rt->run([](Runtime& r) -> Task<void> {
    const auto loop = std::this_thread::get_id();
    std::thread::id ran;
    co_await r.compute({}, [&](ComputeContext&) { ran = std::this_thread::get_id(); });
    EXPECT_NE(ran, loop);
    EXPECT_EQ(std::this_thread::get_id(), loop);
  }(*rt));
}

TEST(RealCompute, ActivityCountsWhatIsInFlight) {
  auto rt = runtime_with(1);
  rt->run([](Runtime& r) -> Task<void> {
    EXPECT_FALSE(r.activity().busy());
    std::atomic<bool> go{false};
    OneShot<bool> end(r);
    ComputeRequest request;
    request.fn = [&](ComputeContext&) {
      while (!go) std::this_thread::yield();
    };
    request.done = [&] { end.set(true); };
    r.start_compute(std::move(request));
    EXPECT_EQ(r.activity().compute_in_flight, 1);
    go = true;
    co_await end.wait_until(kForever);
    EXPECT_FALSE(r.activity().busy());
  }(*rt));
}

TEST(RealCompute, RequestsStartInOrderOfArrival) {
  auto rt = runtime_with(1);
  std::vector<int> order;
  rt->run([](Runtime& r, std::vector<int>& log) -> Task<void> {
    OneShot<bool> end(r);
    for (int i = 0; i < 100; ++i) {
      ComputeRequest request;
      request.fn = [&log, i](ComputeContext&) { log.push_back(i); };
      if (i == 99) request.done = [&] { end.set(true); };
      r.start_compute(std::move(request));
    }
    co_await end.wait_until(kForever);
  }(*rt, order));
  ASSERT_EQ(order.size(), 100U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(RealCompute, ParallelForCutsExactlyWidthFixedSlicesWhateverThePoolSize) {
  for (const int threads : {1, 2, 4})
    for (const TimeNs spin : {TimeNs{0}, 50 * kMicro})
      for (const int width : {1, 2, 3, 7}) {
        auto rt = runtime_with(threads, spin);
        std::set<std::tuple<std::int64_t, std::int64_t, int>> slices;
        rt->run([](Runtime& r, auto& out, int w) -> Task<void> {
          std::mutex mutex;
          co_await r.compute(
              {},
              [&](ComputeContext& context) {
                EXPECT_EQ(context.width(), w);
                context.parallel_for(5, [&](std::int64_t begin, std::int64_t end, int slice) {
                  const std::lock_guard lock(mutex);
                  EXPECT_TRUE(out.emplace(begin, end, slice).second) << "every slice runs once";
                });
              },
              w);
        }(*rt, slices, width));
        std::set<std::tuple<std::int64_t, std::int64_t, int>> expected;
        for (int i = 0; i < width; ++i)
          if (5 * i / width < 5 * (i + 1) / width) expected.emplace(5 * i / width, 5 * (i + 1) / width, i);
        EXPECT_EQ(slices, expected) << "width " << width << ", threads " << threads;
      }
}

TEST(RealCompute, ManyParallelLoopsInOneFunctionAllFinish) {
  for (const TimeNs spin : {TimeNs{0}, 50 * kMicro}) {
    auto rt = runtime_with(3, spin);
    std::atomic<std::int64_t> sum{0};
    rt->run([](Runtime& r, std::atomic<std::int64_t>& total) -> Task<void> {
      co_await r.compute(
          {},
          [&](ComputeContext& context) {
            for (int i = 0; i < 2000; ++i)
              context.parallel_for(10, [&](std::int64_t begin, std::int64_t end, int) {
                total.fetch_add(end - begin, std::memory_order_relaxed);
              });
            context.parallel_for(0, [&](std::int64_t, std::int64_t, int) { total = -1; });
          },
          3);
    }(*rt, sum));
    EXPECT_EQ(sum, 20000);
  }
}

// More parallel loops than threads at once: each caller does its own slices, so nobody waits for a busy
// thread.
TEST(RealCompute, WideRequestsOnABusyPoolDoNotDeadlockAndNeverExceedTheThreads) {
  auto rt = runtime_with(2);
  std::atomic<int> running{0}, most{0}, ended{0};
  rt->run([](Runtime& r, auto& now, auto& peak, auto& count) -> Task<void> {
    OneShot<bool> end(r);
    constexpr int kRequests = 200;
    int left = kRequests;
    for (int i = 0; i < kRequests; ++i) {
      ComputeRequest request;
      request.width = 1 + i % 5;
      request.fn = [&, charge = std::min(request.width, 2)](ComputeContext& context) {
        const int together = now.fetch_add(charge) + charge;
        int seen = peak.load();
        while (seen < together && !peak.compare_exchange_weak(seen, together)) {
        }
        context.parallel_for(100,
                             [&](std::int64_t b, std::int64_t e, int) { count += static_cast<int>(e - b); });
        now -= charge;
      };
      request.done = [&] {
        if (--left == 0) end.set(true);
      };
      r.start_compute(std::move(request));
    }
    co_await end.wait_until(kForever);
  }(*rt, running, most, ended));
  EXPECT_EQ(ended, 200 * 100);
  EXPECT_LE(most, 2);
}

// Submissions one by one from a blocked state: a lost wake-up of a worker hangs here.
TEST(RealCompute, BlockedWorkersMissNoRequest) {
  auto rt = runtime_with(4);
  int ran = 0;
  rt->run([](Runtime& r, int& count) -> Task<void> {
    for (int i = 0; i < 3000; ++i) co_await r.compute({}, [&](ComputeContext&) { ++count; });
  }(*rt, ran));
  EXPECT_EQ(ran, 3000);
}

TEST(RealCompute, DestructionFinishesRunningFunctionsAndDropsTheRest) {
  std::atomic<int> started{0}, ended{0};
  {
    auto rt = runtime_with(1);
    rt->run([](Runtime& r, auto& in, auto& out) -> Task<void> {
      for (int i = 0; i < 50; ++i) {
        ComputeRequest request;
        request.fn = [&](ComputeContext&) {
          ++in;
          std::this_thread::yield();
          ++out;
        };
        r.start_compute(std::move(request));
      }
      while (in == 0) co_await r.sleep_for(10 * kMicro);
    }(*rt, started, ended));
  }
  EXPECT_GE(started, 1);
  EXPECT_EQ(started, ended);
}

TEST(RealCompute, ATaskDestroyedDuringItsComputeIsNotResumed) {
  auto rt = runtime_with(1);
  rt->run([](Runtime& r) -> Task<void> {
    auto go = std::make_shared<std::atomic<bool>>(false);
    bool resumed = false;
    Task<void> task = [](Runtime& r2, std::shared_ptr<std::atomic<bool>> flag, bool& woke) -> Task<void> {
      ComputeFn wait = [flag](ComputeContext&) {
        while (!*flag) std::this_thread::yield();
      };
      co_await r2.compute({}, std::move(wait));
      woke = true;
    }(r, go, resumed);
    task.start();
    task = Task<void>();
    *go = true;
    while (r.activity().busy()) co_await r.sleep_for(10 * kMicro);
    EXPECT_FALSE(resumed);
  }(*rt));
}

TEST(RealCompute, ThreadsDefaultToTheCores) {
  EXPECT_GE(num_cores(), 1);
  EXPECT_EQ(make_real_runtime({})->compute_threads(), num_cores());
}

}  // namespace
}  // namespace trireme::runtime
