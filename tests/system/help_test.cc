// What the binary says about itself: --version, help, and the groups of --help.
#include <gtest/gtest.h>

#include "tests/system/binary.h"
#include "trireme/base/version.h"

namespace trireme::system_test {
namespace {

TEST(Help, VersionIsAnOptionToo) {
  const Workspace w;
  const Ran ran = w.run({"--version"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(ran.out.starts_with(std::string("trireme ") + version() + " (")) << ran.out;
  EXPECT_EQ(ran.err, "");
}

TEST(Help, ListsCommandsInGroups) {
  const Workspace w;
  const Ran ran = w.run({"--help"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::size_t at = 0;
  for (const char* part :
       {"Train and use models:", "train ", "eval ", "predict ", "Plan before training:", "plan ", "simulate ",
        "calibrate ", "Look inside:", "checkpoint ", "inspect ", "Measure:", "bench "}) {
    at = ran.out.find(part, at);
    ASSERT_NE(at, std::string::npos) << part << "\n" << ran.out;
  }
  EXPECT_EQ(ran.out.find("bench-rank"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("trireme help COMMAND"), std::string::npos) << ran.out;
}

TEST(Help, OfACommandComesBothWays) {
  const Workspace w;
  EXPECT_EQ(w.run({"help"}).out, w.run({"--help"}).out);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"train"}, {"inspect", "op"}, {"checkpoint", "diff"}}) {
    std::vector<std::string> first{"help"}, last = command;
    first.insert(first.end(), command.begin(), command.end());
    last.emplace_back("--help");
    const Ran ran = w.run(first);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.out, w.run(last).out);
    EXPECT_NE(ran.out.find("Usage: trireme " + command.front()), std::string::npos) << ran.out;
  }
}

TEST(Help, OfTrainHasItsOptionsInGroups) {
  const Workspace w;
  const Ran ran = w.run({"help", "train"});
  for (const char* part : {"Workers:", "Several hosts:", "Output:", "Testing:"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
}

}  // namespace
}  // namespace trireme::system_test
