// A worker that dies under a rule that can spare it: the others go on, and the loss is told.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

class LostWorker : public ::testing::TestWithParam<const char*> {};

TEST_P(LostWorker, TheOthersGoOnAndTheLossIsTold) {
  const Workspace w;
  std::vector<std::string> args{"train", "--workers", "3", "--run-dir", "run", "--set"};
  for (const char* set :
       {"train.batch=60", "train.steps=1200", "train.checkpoint_steps=20", "train.eval_steps=100",
        "data.limit_train=600", "data.limit_test=100", "model.name=mlp"})
    args.emplace_back(set);
  args.push_back(std::string("parallel.agreement=") + GetParam());
  int killed = 0;
  const Ran ran =
      w.run_until_file(args, "run/checkpoints/step-000000020/manifest.json", [&](runtime::Process& launcher) {
        killed = pid_of_rank(launcher.pid(), 2);
        if (killed > 0) kill(killed, SIGKILL);
      });
  ASSERT_GT(killed, 0);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.err.find("worker 2 died by signal 9; the others continued without it"), std::string::npos)
      << ran.err;
  EXPECT_NE(ran.out.find("lost on the way: worker 2"), std::string::npos) << ran.out;
  const Json summary = w.json("run/summary.json");
  EXPECT_TRUE(summary.value("finished", false));
  EXPECT_EQ(summary.value("lost_workers", Json()).dump(), "[2]");
}

INSTANTIATE_TEST_SUITE_P(Rules, LostWorker, ::testing::Values("downpour", "gossip"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace trireme::system_test
