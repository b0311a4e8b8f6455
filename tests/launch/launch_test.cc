#include "trireme/launch/launch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/runtime/temp_dir.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::launch {
namespace {

using runtime::Runtime;
using runtime::Task;
using runtime::TempDir;
using Exits = std::vector<RankExit>;

Result<std::optional<RankIdentity>> identity(const std::map<std::string, std::string>& environment) {
  return rank_from_environment([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(RankFromEnvironment, IsEmptyWhenNobodyLaunchedThisProcess) {
  const auto none = identity({{"PATH", "/bin"}});
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

TEST(RankFromEnvironment, ReadsRankWorldAndRendezvous) {
  const auto id =
      identity({{"TRIREME_RANK", "2"}, {"TRIREME_WORLD", "3"}, {"TRIREME_RENDEZVOUS", "/tmp/meet"}});
  ASSERT_TRUE(id.ok()) << id.status().to_string();
  ASSERT_TRUE(id->has_value());
  EXPECT_EQ((*id)->rank, 2);
  EXPECT_EQ((*id)->world, 3);
  EXPECT_EQ((*id)->rendezvous, "/tmp/meet");
}

TEST(RankFromEnvironment, VariablesThatMakeNoSenseAreErrors) {
  struct Case {
    std::map<std::string, std::string> environment;
    const char* said;
  };
  const auto full = [](std::string rank, std::string world, std::string rendezvous = "/r") {
    return std::map<std::string, std::string>{{"TRIREME_RANK", std::move(rank)},
                                              {"TRIREME_WORLD", std::move(world)},
                                              {"TRIREME_RENDEZVOUS", std::move(rendezvous)}};
  };
  const Case cases[] = {
      {{{"TRIREME_RANK", "0"}}, "belong together"},
      {{{"TRIREME_WORLD", "1"}, {"TRIREME_RENDEZVOUS", "/r"}}, "belong together"},
      {{{"TRIREME_RANK", "0"}, {"TRIREME_WORLD", "1"}}, "belong together"},
      {full("x", "1"), "TRIREME_RANK is not a number: got 'x'"},
      {full("", "1"), "TRIREME_RANK is not a number"},
      {full("0", "1x"), "TRIREME_WORLD is not a number: got '1x'"},
      {full("0", "99999999999"), "TRIREME_WORLD is not a number"},
      {full("3", "3"), "TRIREME_RANK is 3, expected 0 to 2"},
      {full("-1", "3"), "TRIREME_RANK is -1, expected 0 to 2"},
      {full("0", "0"), "TRIREME_RANK is 0"},
      {full("0", "1", ""), "TRIREME_RENDEZVOUS is empty"},
  };
  for (const Case& c : cases) {
    const auto id = identity(c.environment);
    EXPECT_EQ(id.status().code(), Code::kInvalid) << c.said;
    EXPECT_NE(id.status().message().find(c.said), std::string::npos) << id.status().message();
  }
}

Task<void> launch_into(Runtime& rt, LaunchSpec spec, Result<Exits>& out) {
  out = co_await launch_local(rt, std::move(spec));
}

Result<Exits> launch(LaunchSpec spec, TimeNs* took = nullptr) {
  runtime::RealOptions options;
  options.compute_threads = 1;
  options.spin_ns = 0;
  const auto rt = runtime::make_real_runtime(options);
  Result<Exits> exits = error(Code::kInternal, "not run");
  const TimeNs before = rt->now();
  rt->run(launch_into(*rt, std::move(spec), exits));
  if (took != nullptr) *took = rt->now() - before;
  return exits;
}

LaunchSpec shell(int world, const std::string& script) {
  LaunchSpec spec;
  spec.argv = {"/bin/sh", "-c", script};
  spec.world = world;
  spec.rendezvous = "/nowhere";
  spec.grace = 100 * kMilli;
  return spec;
}

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(LaunchLocal, RanksThatAllEndWellAreReportedSo) {
  const Result<Exits> exits = launch(shell(3, "exit 0"));
  ASSERT_TRUE(exits.ok()) << exits.status().to_string();
  ASSERT_EQ(exits->size(), 3U);
  for (const RankExit& e : *exits) {
    EXPECT_TRUE(e.status.ok());
    EXPECT_FALSE(e.killed_by_launcher);
  }
}

TEST(LaunchLocal, EveryRankLearnsWhoItIsAndOthersThanTheFirstWriteToTheirLogs) {
  const TempDir dir;
  LaunchSpec spec = shell(3,
                          "echo \"$TRIREME_RANK of $TRIREME_WORLD at $TRIREME_RENDEZVOUS\" > "
                          "\"$TRIREME_RENDEZVOUS/rank-$TRIREME_RANK\"; test $TRIREME_RANK = 0 || "
                          "{ echo out $TRIREME_RANK; echo err $TRIREME_RANK >&2; }");
  spec.rendezvous = dir.path();
  for (int r = 0; r < 3; ++r) spec.log_paths.push_back(dir / ("log-" + std::to_string(r)));
  const Result<Exits> exits = launch(spec);
  ASSERT_TRUE(exits.ok()) << exits.status().to_string();
  for (int r = 0; r < 3; ++r) {
    const std::string rank = std::to_string(r);
    EXPECT_EQ(content_of(dir / ("rank-" + rank)), rank + " of 3 at " + dir.path() + "\n");
    if (r > 0) {
      EXPECT_EQ(content_of(dir / ("log-" + rank)), "out " + rank + "\nerr " + rank + "\n");
    }
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "log-0")) << "the first rank keeps the terminal";
}

TEST(LaunchLocal, ExitCodesAndSignalsAreReportedPerRank) {
  const Result<Exits> exits =
      launch(shell(3, "case $TRIREME_RANK in 0) exit 0;; 1) exit 7;; 2) kill -TERM $$;; esac"));
  ASSERT_TRUE(exits.ok()) << exits.status().to_string();
  EXPECT_TRUE((*exits)[0].status.ok());
  EXPECT_EQ((*exits)[1].status.code, 7);
  EXPECT_EQ((*exits)[1].status.signal, 0);
  EXPECT_EQ((*exits)[2].status.signal, SIGTERM);
  for (const RankExit& e : *exits) EXPECT_FALSE(e.killed_by_launcher);
}

TEST(LaunchLocal, WhenOneFailsTheOthersAreKilledAfterTheGrace) {
  TimeNs took = 0;
  const Result<Exits> exits = launch(shell(3, "test $TRIREME_RANK != 1 || exit 5; exec sleep 600"), &took);
  ASSERT_TRUE(exits.ok()) << exits.status().to_string();
  EXPECT_EQ((*exits)[1].status.code, 5);
  EXPECT_FALSE((*exits)[1].killed_by_launcher) << "the culprit ended by itself";
  for (const std::size_t r : {0, 2}) {
    EXPECT_EQ((*exits)[r].status.signal, SIGKILL) << r;
    EXPECT_TRUE((*exits)[r].killed_by_launcher) << r;
  }
  EXPECT_GE(took, 100 * kMilli) << "the grace was not given";
}

TEST(LaunchLocal, RanksThatEndWithinTheGraceAreNotKilled) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir / "fifo").c_str(), 0600), 0);
  // Rank 0 waits until rank 1 opens the fifo on its way out, then ends by itself.
  LaunchSpec spec = shell(2,
                          "cd \"$TRIREME_RENDEZVOUS\"; test $TRIREME_RANK = 0 && { read x < fifo; exit 3; }; "
                          "echo go > fifo; exit 5");
  spec.rendezvous = dir.path();
  spec.grace = 60 * kSecond;
  const Result<Exits> exits = launch(spec);
  ASSERT_TRUE(exits.ok()) << exits.status().to_string();
  EXPECT_EQ((*exits)[0].status.code, 3);
  EXPECT_EQ((*exits)[1].status.code, 5);
  for (const RankExit& e : *exits) EXPECT_FALSE(e.killed_by_launcher);
}

TEST(LaunchLocal, AnExpendableRankMayFailWhileTheOthersGoOn) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir / "fifo").c_str(), 0600), 0);
  // The second rank ends only after the grace that the first failure would have started.
  LaunchSpec spec =
      shell(3,
            "cd \"$TRIREME_RENDEZVOUS\"; case $TRIREME_RANK in 2) exit 5;; 1) sleep 0.3; echo go > "
            "fifo;; 0) read x < fifo;; esac");
  spec.rendezvous = dir.path();
  spec.grace = kMilli;
  spec.expendable = {false, true, true};
  const Result<Exits> exits = launch(spec);
  ASSERT_TRUE(exits.ok()) << exits.status().to_string();
  EXPECT_TRUE((*exits)[0].status.ok());
  EXPECT_TRUE((*exits)[1].status.ok()) << (*exits)[1].status.signal;
  EXPECT_EQ((*exits)[2].status.code, 5);
}

TEST(LaunchLocal, AnExpendableRankThatHangsEndsWithTheFirst) {
  LaunchSpec spec = shell(2, "test $TRIREME_RANK = 0 || exec sleep 600");
  spec.expendable = {false, true};
  const Result<Exits> exits = launch(spec);
  ASSERT_TRUE(exits.ok()) << exits.status().to_string();
  EXPECT_TRUE((*exits)[0].status.ok());
  EXPECT_TRUE((*exits)[1].killed_by_launcher);
}

TEST(LaunchLocal, AProgramThatDoesNotExistIsReported) {
  LaunchSpec spec = shell(2, "");
  spec.argv = {"/no/such/program"};
  const Result<Exits> exits = launch(spec);
  if (exits.ok()) {
    for (const RankExit& e : *exits) EXPECT_FALSE(e.status.ok());
  } else {
    EXPECT_NE(exits.status().message().find("/no/such/program"), std::string::npos)
        << exits.status().message();
  }
}

}  // namespace
}  // namespace trireme::launch
