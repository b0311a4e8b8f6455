// Child processes, signals and fatal faults of a real Runtime.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/runtime/temp_dir.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/processes.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/sync.h"

namespace trireme::runtime {
namespace {

std::unique_ptr<RealRuntime> small_runtime(std::vector<RealFault> faults = {}) {
  RealOptions options;
  options.compute_threads = 1;
  options.spin_ns = 0;
  options.faults = std::move(faults);
  return make_real_runtime(options);
}

ProcessSpec shell(const std::string& script) { return {{"/bin/sh", "-c", script}, {}, "", ""}; }

TEST(RealProcesses, ExitCodesAndSignalsAreReported) {
  auto rt = small_runtime();
  rt->run([](Runtime& r) -> Task<void> {
    auto three = r.processes().spawn(shell("exit 3"));
    auto status = co_await (*three)->wait(kForever);
    EXPECT_EQ(status->code, 3);
    EXPECT_FALSE(status->ok());
    auto again = co_await (*three)->wait(kForever);
    EXPECT_EQ(again->code, 3) << "wait may be called again";
    EXPECT_EQ((*three)->signal(ProcessSignal::kKill).code(), Code::kNotFound);

    auto killed = r.processes().spawn(shell("kill -9 $$"));
    status = co_await (*killed)->wait(kForever);
    EXPECT_EQ(status->signal, SIGKILL);
    auto fine = r.processes().spawn(shell("exit 0"));
    status = co_await (*fine)->wait(kForever);
    EXPECT_TRUE(status->ok());
  }(*rt));
}

TEST(RealProcesses, AWaitEndsAtItsDeadlineAndTheProcessCanBeSignalled) {
  auto rt = small_runtime();
  rt->run([](Runtime& r) -> Task<void> {
    auto child = r.processes().spawn(shell("exec sleep 1000"));
    auto status = co_await (*child)->wait(r.now() + kMilli);
    EXPECT_EQ(status.status().code(), Code::kDeadline);
    EXPECT_TRUE((*child)->signal(ProcessSignal::kPause).ok());
    EXPECT_TRUE((*child)->signal(ProcessSignal::kContinue).ok());
    EXPECT_TRUE((*child)->signal(ProcessSignal::kTerminate).ok());
    status = co_await (*child)->wait(kForever);
    EXPECT_EQ(status->signal, SIGTERM);
  }(*rt));
}

TEST(RealProcesses, AnInputPipeCarriesAFewWordsAndClosesWithTheProcess) {
  const TempDir dir;
  auto rt = small_runtime();
  rt->run([](Runtime& r, std::string out) -> Task<void> {
    ProcessSpec spec =
        shell("while read -r x; do echo \"got $x\"; test $x != last || exit 7; done; echo closed");
    spec.input_pipe = true;
    spec.stdout_path = out;
    auto child = r.processes().spawn(spec);
    EXPECT_TRUE((*child)->write_input("stop\n").ok());
    EXPECT_TRUE((*child)->write_input("last\n").ok());
    auto status = co_await (*child)->wait(kForever);
    EXPECT_EQ(status->code, 7);
    EXPECT_EQ((*child)->write_input("more\n").code(), Code::kNotFound);
    auto bytes = co_await r.files().read(out);
    EXPECT_EQ(as_text(*bytes), "got stop\ngot last\n");
    auto plain = r.processes().spawn(shell("exit 0"));
    EXPECT_EQ((*plain)->write_input("word\n").code(), Code::kInvalid);
    co_await (*plain)->wait(kForever);
  }(*rt, dir / "out"));
}

TEST(RealProcesses, OutputIsAppendedToFilesAndTheEnvironmentIsExtended) {
  const TempDir dir;
  auto rt = small_runtime();
  rt->run([](Runtime& r, std::string out, std::string err) -> Task<void> {
    for (int i = 0; i < 2; ++i) {
      ProcessSpec spec = shell("echo \"$TRIREME_A:${PATH:+path}\"; echo bad >&2");
      spec.env.emplace_back("TRIREME_A", std::to_string(i));
      spec.stdout_path = out;
      spec.stderr_path = err;
      auto child = r.processes().spawn(spec);
      auto status = co_await (*child)->wait(kForever);
      EXPECT_TRUE(status->ok());
    }
    const Result<Bytes> printed = co_await r.files().read(out);
    EXPECT_EQ(as_text(*printed), "0:path\n1:path\n");
    const Result<Bytes> complained = co_await r.files().read(err);
    EXPECT_EQ(as_text(*complained), "bad\nbad\n");
  }(*rt, dir / "out", dir / "err"));
}

TEST(RealProcesses, AnEmptyProgramIsThisBinary) {
  const TempDir dir;
  auto rt = small_runtime();
  rt->run([](Runtime& r, std::string out) -> Task<void> {
    auto child = r.processes().spawn({{"", "--gtest_list_tests"}, {}, out, ""});
    auto status = co_await (*child)->wait(kForever);
    EXPECT_TRUE(status->ok());
    const Result<Bytes> printed = co_await r.files().read(out);
    EXPECT_NE(as_text(*printed).find("AnEmptyProgramIsThisBinary"), std::string_view::npos);
  }(*rt, dir / "out"));
}

TEST(RealProcesses, WhatCannotBeStartedIsAnErrorWithTheReason) {
  auto rt = small_runtime();
  EXPECT_EQ(rt->processes().spawn({{"/nowhere/program"}, {}, "", ""}).status().message(),
            "[processes] cannot start '/nowhere/program': No such file or directory");
  EXPECT_EQ(rt->processes().spawn({{}, {}, "", ""}).status().code(), Code::kInvalid);
  EXPECT_EQ(rt->processes().spawn({{"/bin/sh"}, {}, "/nowhere/out", ""}).status().code(), Code::kNotFound);
}

TEST(RealProcesses, DestroyingARunningProcessKillsAndReapsIt) {
  auto rt = small_runtime();
  auto child = rt->processes().spawn(shell("exec sleep 1000"));
  const auto pid = static_cast<pid_t>((*child)->pid());
  EXPECT_EQ(kill(pid, 0), 0);
  child->reset();
  EXPECT_EQ(kill(pid, 0), -1) << "neither a process nor a zombie is left";
}

// The parent and the child hold the only writing ends of the fifo; when both are gone its reader sees the
// end.
TEST(RealProcessesDeathTest, AChildDoesNotOutliveAParentThatIsKilled) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // The death test runs this function again in another process, so the name must come from outside.
  const char* inherited = getenv("TRIREME_TEST_FIFO");
  const TempDir dir;
  const std::string fifo = inherited != nullptr ? inherited : dir / "fifo";
  if (inherited == nullptr) {
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    ASSERT_EQ(setenv("TRIREME_TEST_FIFO", fifo.c_str(), 1), 0);
  }
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  EXPECT_EXIT(
      {
        auto rt = small_runtime({{RealFault::Kind::kKill, "here", 0}});
        ProcessSpec spec = shell("echo up; exec sleep 1000");
        spec.stdout_path = fifo;
        auto child = rt->processes().spawn(spec);
        rt->fault_point("here", 0);
      },
      testing::KilledBySignal(SIGKILL), "");
  unsetenv("TRIREME_TEST_FIFO");
  pollfd end{reader, 0, 0};
  EXPECT_EQ(poll(&end, 1, 30'000), 1) << "the child still holds its output open";
  EXPECT_TRUE(end.revents & POLLHUP);
  close(reader);
}

TEST(RealProcesses, InterruptsRunTheHandlerOnTheLoopAndWithoutOneTheDefaultIsBack) {
  auto rt = small_runtime();
  struct sigaction before {};
  sigaction(SIGTERM, nullptr, &before);
  rt->run([](Runtime& r) -> Task<void> {
    OneShot<bool> first(r), second(r);
    r.on_interrupt([&] { first.set(true); });
    kill(getpid(), SIGTERM);
    EXPECT_FALSE(first.is_set());
    co_await first.wait_until(kForever);
    r.on_interrupt([&] { second.set(true); });
    kill(getpid(), SIGINT);
    co_await second.wait_until(kForever);
    r.on_interrupt({});
    r.on_interrupt([] {});
    r.on_interrupt({});
  }(*rt));
  struct sigaction after {};
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

TEST(RealProcesses, SignalsThatComeTogetherAreOneRequest) {
  auto rt = small_runtime();
  int heard = 0;
  rt->on_interrupt([&] { ++heard; });
  for (const int signal : {SIGTERM, SIGTERM, SIGINT}) kill(getpid(), signal);
  rt->run([](Runtime& r, int& count) -> Task<void> {
    while (count == 0) co_await r.sleep_for(10 * kMicro);
    // Another one comes through, however long it takes until it is no part of the first.
    while (count == 1) {
      kill(getpid(), SIGTERM);
      co_await r.sleep_for(kMilli);
    }
  }(*rt, heard));
  EXPECT_EQ(heard, 2);
}

TEST(RealProcessesDeathTest, ARequestThatWasHeardDoesNotEndTheProcessAndTheNextOneDoes) {
  EXPECT_EXIT(
      {
        auto rt = small_runtime();
        rt->run([](Runtime& r) -> Task<void> {
          OneShot<bool> first(r);
          r.on_interrupt([&] { first.set(true); });
          kill(getpid(), SIGTERM);
          co_await first.wait_until(kForever);
          r.on_interrupt({});
          kill(getpid(), SIGTERM);
          kill(getpid(), SIGINT);
          std::fputs("still there", stderr);
          for (;;) {
            kill(getpid(), SIGTERM);
            co_await r.sleep_for(kMilli);
          }
        }(*rt));
      },
      testing::KilledBySignal(SIGTERM), "still there");
}

TEST(RealProcesses, EveryRuntimeThatListensHearsAnInterrupt) {
  auto a = small_runtime(), b = small_runtime();
  int heard = 0;
  a->on_interrupt([&] { ++heard; });
  b->on_interrupt([&] { ++heard; });
  kill(getpid(), SIGINT);
  for (auto* rt : {a.get(), b.get()})
    rt->run([](Runtime& r, int& count) -> Task<void> {
      const int before = count;
      while (count == before) co_await r.sleep_for(10 * kMicro);
    }(*rt, heard));
  EXPECT_EQ(heard, 2);
}

}  // namespace
}  // namespace trireme::runtime
