#include "trireme/agree/mechanism/background_tasks.h"

#include <gtest/gtest.h>

#include "trireme/runtime/virtual/world.h"

namespace trireme::agree {
namespace {

using runtime::Runtime;
using runtime::Task;

Task<Status> sleeps(Runtime& rt, TimeNs duration, Status result, int& ended) {
  co_await rt.sleep_for(duration);
  ++ended;
  co_return result;
}

Task<Status> at_once(int& ended) {
  ++ended;
  co_return Status();
}

// Runs `main` on one virtual rank to its end.
void on_a_rank(const std::function<Task<void>(Runtime&)>& main) {
  runtime::WorldSpec spec;
  spec.topology = cost::Topology::single_switch(1, {}, {});
  const auto world = runtime::make_virtual_world(spec);
  Runtime& rt = world->add_runtime(0, "rank 0");
  world->start(rt, main(rt));
  const auto report = world->run(kSecond);
  EXPECT_TRUE(report.finished) << report.stuck;
}

TEST(BackgroundTasks, RunUpToTheirFirstWaitWhenTheyAreStarted) {
  on_a_rank([](Runtime& rt) -> Task<void> {
    BackgroundTasks tasks(rt);
    int ended = 0;
    tasks.start(at_once(ended));
    EXPECT_EQ(ended, 1);
    EXPECT_EQ(tasks.under_way(), 0U);
    const Status done = co_await tasks.drain();
    EXPECT_TRUE(done.ok());
  });
}

TEST(BackgroundTasks, AreWaitedForUntilFewEnoughAreUnderWay) {
  on_a_rank([](Runtime& rt) -> Task<void> {
    BackgroundTasks tasks(rt);
    int ended = 0;
    for (const TimeNs ms : {3, 1, 2}) tasks.start(sleeps(rt, ms * kMilli, Status(), ended));
    EXPECT_EQ(tasks.under_way(), 3U);
    Status status = co_await tasks.wait_below(3);
    EXPECT_TRUE(status.ok());
    EXPECT_EQ(ended, 1);
    EXPECT_EQ(rt.now(), kMilli);
    status = co_await tasks.drain();
    EXPECT_TRUE(status.ok());
    EXPECT_EQ(ended, 3);
    EXPECT_EQ(rt.now(), 3 * kMilli);
  });
}

TEST(BackgroundTasks, ThatFailEndEveryWaitAtOnceAndForGood) {
  on_a_rank([](Runtime& rt) -> Task<void> {
    BackgroundTasks tasks(rt);
    int ended = 0;
    tasks.start(sleeps(rt, 5 * kMilli, Status(), ended));
    tasks.start(sleeps(rt, kMilli, error(Code::kPeerLost, "gone"), ended));
    Status status = co_await tasks.drain();
    EXPECT_EQ(status.code(), Code::kPeerLost);
    EXPECT_EQ(rt.now(), kMilli);
    status = co_await tasks.wait_below(9);
    EXPECT_EQ(status.code(), Code::kPeerLost);
  });
}

TEST(BackgroundTasks, GoWithTheirOwnerWhereverTheyWait) {
  int ended = 0;
  on_a_rank([&ended](Runtime& rt) -> Task<void> {
    {
      BackgroundTasks tasks(rt);
      tasks.start(sleeps(rt, kMilli, Status(), ended));
      Task<Status> waiting = tasks.drain();
      waiting.start();
    }
    co_await rt.sleep_for(10 * kMilli);
  });
  EXPECT_EQ(ended, 0);
}

}  // namespace
}  // namespace trireme::agree
