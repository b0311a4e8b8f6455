// Processes of virtual machines: exit codes, signals, orphans.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trireme/runtime/network.h"
#include "trireme/runtime/processes.h"
#include "trireme/runtime/sync.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::runtime {
namespace {

WorldSpec one_machine() {
  WorldSpec spec;
  spec.topology = cost::Topology::single_switch(1, {}, {});
  return spec;
}

using Env = std::vector<std::pair<std::string, std::string>>;

// "exit N", "work" (10 ms of ticks, each logged), "graceful" (ends with 7 when interrupted).
Task<int> program(Runtime& rt, std::vector<std::string> argv, Env env) {
  if (!env.empty()) rt.log(env[0].first + "=" + env[0].second);
  if (argv[1] == "exit") co_return std::stoi(argv[2]);
  OneShot<bool> interrupted(rt);
  if (argv[1] == "graceful") {
    rt.on_interrupt([&] { interrupted.set(true); });
    co_await interrupted.wait_until(kForever);
    co_return 7;
  }
  for (int i = 0; i < 10; ++i) {
    co_await rt.sleep_for(kMilli);
    rt.log(fmt::format("tick {}", i));
  }
  co_return 0;
}

struct Seen {
  std::vector<ExitStatus> exits;
  std::vector<Status> errors;
  TimeNs end = -1;
};

Task<void> run_child(Runtime& rt, std::vector<std::string> argv,
                     std::vector<std::pair<TimeNs, ProcessSignal>> signals, Seen& seen) {
  auto child = rt.processes().spawn(
      {.argv = std::move(argv), .env = {{"RANK", "3"}}, .stdout_path = {}, .stderr_path = {}});
  if (!child.ok()) {
    seen.errors.push_back(child.status());
    co_return;
  }
  for (const auto& [when, signal] : signals) {
    const auto early = co_await (*child)->wait(when);
    if (!early.ok()) seen.errors.push_back(early.status());
    (void)(*child)->signal(signal);
  }
  for (int i = 0; i < 2; ++i) {  // waiting again gives the same answer
    const auto exit = co_await (*child)->wait(kSecond);
    if (exit.ok())
      seen.exits.push_back(*exit);
    else
      seen.errors.push_back(exit.status());
    if (i == 0) seen.end = rt.now();
  }
}

Seen run(std::vector<std::string> argv, std::vector<std::pair<TimeNs, ProcessSignal>> signals = {}) {
  Seen seen;
  auto world = make_virtual_world(one_machine());
  world->set_program(program);
  Runtime& rt = world->add_runtime(0, "parent");
  world->start(rt, run_child(rt, std::move(argv), std::move(signals), seen));
  const WorldReport report = world->run(kForever);
  EXPECT_TRUE(report.finished) << report.stuck;
  return seen;
}

TEST(VirtualProcess, GivesTheExitCodeOfItsProgram) {
  const Seen seen = run({"trireme", "exit", "5"});
  ASSERT_EQ(seen.exits.size(), 2U);
  EXPECT_EQ(seen.exits[0].code, 5);
  EXPECT_EQ(seen.exits[1].code, 5);
  EXPECT_EQ(seen.exits[0].signal, 0);
  EXPECT_FALSE(seen.exits[0].ok());
}

TEST(VirtualProcess, AWaitEndsAtItsDeadline) {
  const Seen seen = run({"trireme", "work"}, {{kMilli / 2, ProcessSignal::kContinue}});
  ASSERT_EQ(seen.errors.size(), 1U);
  EXPECT_EQ(seen.errors[0].code(), Code::kDeadline);
  EXPECT_EQ(seen.end, 10 * kMilli);
}

TEST(VirtualProcess, AKillIsReportedAsASignal) {
  const Seen seen = run({"trireme", "work"}, {{3 * kMilli, ProcessSignal::kKill}});
  ASSERT_EQ(seen.exits.size(), 2U);
  EXPECT_EQ(seen.exits[0].signal, 9);
  EXPECT_EQ(seen.end, 3 * kMilli);
}

TEST(VirtualProcess, APausedProcessGoesOnWhereItWas) {
  const Seen seen = run({"trireme", "work"},
                        {{5 * kMilli + 1, ProcessSignal::kPause}, {100 * kMilli, ProcessSignal::kContinue}});
  ASSERT_EQ(seen.exits.size(), 2U);
  EXPECT_TRUE(seen.exits[0].ok());
  EXPECT_EQ(seen.end, 104 * kMilli);
}

TEST(VirtualProcess, AnInterruptRunsTheHandlerOrEndsTheProcess) {
  const Seen graceful = run({"trireme", "graceful"}, {{kMilli, ProcessSignal::kInterrupt}});
  ASSERT_EQ(graceful.exits.size(), 2U);
  EXPECT_EQ(graceful.exits[0].code, 7);
  const Seen rude = run({"trireme", "work"}, {{kMilli, ProcessSignal::kTerminate}});
  ASSERT_EQ(rude.exits.size(), 2U);
  EXPECT_EQ(rude.exits[0].signal, 15);
}

TEST(VirtualProcess, NeedsAProgram) {
  auto world = make_virtual_world(one_machine());
  Runtime& rt = world->add_runtime(0, "parent");
  Seen seen;
  world->start(rt, run_child(rt, {"trireme"}, {}, seen));
  world->run(kForever);
  ASSERT_EQ(seen.errors.size(), 1U);
  EXPECT_EQ(seen.errors[0].code(), Code::kNotFound);
}

Task<void> drop_child(Runtime& rt, std::unique_ptr<Process>& kept) {
  auto dropped = rt.processes().spawn(
      {.argv = {"trireme", "work", "dropped"}, .env = {}, .stdout_path = {}, .stderr_path = {}});
  auto other = rt.processes().spawn(
      {.argv = {"trireme", "work", "kept"}, .env = {}, .stdout_path = {}, .stderr_path = {}});
  kept = std::move(*other);
  co_await rt.sleep_until(2 * kMilli + 1);
  dropped->reset();
  co_await rt.sleep_until(50 * kMilli);
}

TEST(VirtualProcess, GoesWithItsHandle) {
  auto world = make_virtual_world(one_machine());
  std::vector<Runtime*> children;
  world->set_program([&children](Runtime& rt, std::vector<std::string> argv, Env env) {
    children.push_back(&rt);
    return program(rt, std::move(argv), std::move(env));
  });
  Runtime& rt = world->add_runtime(0, "parent");
  std::unique_ptr<Process> kept;
  world->start(rt, drop_child(rt, kept));
  world->run(kForever);
  ASSERT_EQ(children.size(), 2U);
  EXPECT_EQ(children[0]->name(), "trireme work dropped");
  EXPECT_EQ(world->log_of(*children[0]).size(), 2U);
  EXPECT_EQ(world->log_of(*children[1]).size(), 10U);
  EXPECT_TRUE(world->is_dead(*children[0]));
}

TEST(VirtualProcess, AnEndedProcessClosesItsEndpointes) {
  auto world = make_virtual_world(one_machine());
  world->set_program([](Runtime& rt, std::vector<std::string>, Env) -> Task<int> {
    auto box = rt.network().open_endpoint(9);
    co_await rt.sleep_for(kMilli);
    co_return 0;
  });
  Runtime& rt = world->add_runtime(0, "parent");
  int closed = -1;
  world->start(rt, [](Runtime& r, int& peer) -> Task<void> {
    auto box = r.network().open_endpoint(0);
    OneShot<bool> heard(r);
    (*box)->set_handlers([](int, Packet) {},
                         [&](int p) {
                           peer = p;
                           heard.set(true);
                         });
    auto child = r.processes().spawn({.argv = {"x"}, .env = {}, .stdout_path = {}, .stderr_path = {}});
    co_await heard.wait_until(kSecond);
  }(rt, closed));
  EXPECT_TRUE(world->run(kForever).finished);
  EXPECT_EQ(closed, 9);
}

}  // namespace
}  // namespace trireme::runtime
