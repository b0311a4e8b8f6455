// Workers as processes over shared memory, from the command line: the same bits, resumes, and one error for
// all.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

std::vector<std::string> small_train(const std::string& run_dir, const std::vector<std::string>& more) {
  std::vector<std::string> args{"train", "--quiet", "--run-dir", run_dir};
  for (const char* set :
       {"train.logical_shards=6", "train.batch=60", "train.steps=24", "train.checkpoint_steps=6",
        "train.optimizer.lr=0.03", "data.limit_train=1200", "data.limit_test=200"})
    args.insert(args.end(), {"--set", set});
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::string sha_of(const Workspace& w, const std::string& run_dir) {
  const Json summary = w.json(run_dir + "/summary.json");
  EXPECT_TRUE(summary.value("finished", false)) << run_dir;
  return summary.value("parameters_sha256", "");
}

TEST(Processes, OneTwoAndThreeWorkersOverSharedMemoryEndInOneHash) {
  const Workspace w;
  for (const char* threads : {"1", "2"}) {
    std::string expected;
    for (const char* workers : {"1", "2", "3"}) {
      const std::string dir = std::string("run") + threads + workers;
      const Ran ran = w.run(
          small_train(dir, {"--workers", workers, "--set", std::string("train.shard_threads=") + threads}));
      ASSERT_EQ(ran.code, 0) << ran.err;
      if (expected.empty()) expected = sha_of(w, dir);
      EXPECT_EQ(sha_of(w, dir), expected) << workers << " workers, " << threads << " threads";
      EXPECT_EQ(expected.size(), 64U);
    }
  }
}

TEST(Processes, ARunKilledHalfWayAndStartedAgainEndsInTheSameHash) {
  const Workspace w;
  ASSERT_EQ(w.run(small_train("whole", {"--workers", "2"})).code, 0);
  const Ran killed =
      w.run_until_file(small_train("cut", {"--workers", "2"}), "cut/checkpoints/step-000000012/manifest.json",
                       [](runtime::Process& p) { (void)p.signal(runtime::ProcessSignal::kKill); });
  EXPECT_EQ(killed.signal, 9);
  EXPECT_EQ(w.read("cut/summary.json"), "");
  const Ran resumed = w.run(small_train("cut", {"--workers", "3"}));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(sha_of(w, "cut"), sha_of(w, "whole"));
}

class Interrupted : public ::testing::TestWithParam<const char*> {};

// The signal goes to the launcher alone, as from a batch system; a terminal's Ctrl-C reaches no rank by
// another way.
TEST_P(Interrupted, SavesAndStopsAndTheSameCommandGoesOn) {
  const Workspace w;
  // Long enough that the interrupt at step 6 finds most of the run ahead of it.
  const std::vector<std::string> longer{"--set", "train.steps=240", "--workers", GetParam()};
  ASSERT_EQ(w.run(small_train("whole", longer)).code, 0);
  const Ran stopped =
      w.run_until_file(small_train("run", longer), "run/checkpoints/step-000000006/manifest.json",
                       [](runtime::Process& p) { (void)p.signal(runtime::ProcessSignal::kInterrupt); });
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_NE(stopped.out.find("The same command resumes"), std::string::npos) << stopped.out;
  EXPECT_LT(w.json("run/summary.json").value("steps", 240), 240);
  ASSERT_EQ(w.run(small_train("run", longer)).code, 0);
  EXPECT_EQ(sha_of(w, "run"), sha_of(w, "whole"));
}

// A batch system signals launcher and ranks, and the launcher passes its signal on to them; timeout(1)
// signals its child twice.
TEST_P(Interrupted, ByLauncherAndRanksTogetherSavesAndStopsToo) {
  const Workspace w;
  int signalled = 0;
  const Ran stopped =
      w.run_until_file(small_train("run", {"--set", "train.steps=240", "--workers", GetParam()}),
                       "run/checkpoints/step-000000006/manifest.json", [&](runtime::Process& launcher) {
                         for (const int rank : {0, 1})
                           if (const int pid = pid_of_rank(launcher.pid(), rank); pid > 0)
                             signalled += kill(pid, SIGTERM) == 0 ? 1 : 0;
                         for (int i = 0; i < 2; ++i)
                           (void)launcher.signal(runtime::ProcessSignal::kTerminate);
                       });
  EXPECT_EQ(signalled, GetParam() == std::string("2") ? 2 : 0) << "one worker is a thread of the launcher";
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  const int steps = w.json("run/summary.json").value("steps", 0);
  EXPECT_GE(steps, 6);
  EXPECT_LT(steps, 240);
  EXPECT_NE(w.read(fmt::format("run/checkpoints/step-{:09}/manifest.json", steps)), "") << steps;
}

INSTANTIATE_TEST_SUITE_P(Workers, Interrupted, ::testing::Values("1", "2"));

struct FaultCase {
  const char* fault;
  int culprit;
  const char* reason;
};

class ProcessFaults : public ::testing::TestWithParam<FaultCase> {};

TEST_P(ProcessFaults, EveryOtherRankNamesCulpritOperationAndReason) {
  const FaultCase& c = GetParam();
  const Workspace w;
  const Ran ran = w.run(small_train("run", {"--workers", "3", "--fault", c.fault}));
  EXPECT_EQ(ran.code, 1) << ran.err;
  for (int r = 0; r < 3; ++r) {
    const Json failure = w.json("run/log/rank-" + std::to_string(r) + ".error.json");
    if (r == c.culprit && failure.is_null()) continue;  // killed or paused: it could not write
    ASSERT_FALSE(failure.is_null()) << "rank " << r << "\n" << ran.err;
    EXPECT_EQ(failure.value("culprit", -1), c.culprit) << failure.dump();
    const std::string operation = failure.value("operation", "");
    // A rank that still computes when the connection closes waits for nothing that it could name.
    if (!operation.empty() || std::string_view(c.reason) != "closed") {
      // A sum, the barrier after its update, or the vote on the step.
      const bool known = operation.find("bucket ") != std::string::npos ||
                         operation.find("update ") != std::string::npos ||
                         operation.find(" vote") != std::string::npos;
      EXPECT_TRUE(known) << failure.dump();
      EXPECT_NE(operation.find("step 0"), std::string::npos) << failure.dump();
    }
    EXPECT_NE(failure.value("reason", "").find(c.reason), std::string::npos) << failure.dump();
  }
  EXPECT_NE(ran.err.find("resumes from the last checkpoint"), std::string::npos) << ran.err;
}

INSTANTIATE_TEST_SUITE_P(Kinds, ProcessFaults,
                         ::testing::Values(FaultCase{"1:kill@collective:9", 1, "closed"},
                                           FaultCase{"0:kill@collective:9", 0, "closed"},
                                           FaultCase{"2:pause@collective:9", 2, "silent"},
                                           FaultCase{"1:miscall@collective:9", 1, "mismatch"},
                                           FaultCase{"2:error@collective:9", 2, "injected"}));

}  // namespace
}  // namespace trireme::system_test
