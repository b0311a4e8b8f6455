// Ranks behind ssh, with a stand-in that runs the command line here: the same words, pipes and shells, no
// sshd.
#include "trireme/launch/remote.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/runtime/temp_dir.h"
#include "trireme/launch/launch.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::launch {
namespace {

using runtime::Runtime;
using runtime::Task;
using runtime::TempDir;
using Exits = std::vector<RankExit>;

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void write_program(const std::string& path, const std::string& text) {
  std::ofstream(path) << "#!/bin/sh\n" << text;
  chmod(path.c_str(), 0700);
}

// As sshd does: the login shell gets the words behind the host, joined. An unreachable host is 255.
RemoteSpec fake(const TempDir& dir, const std::string& rank_script) {
  write_program(dir / "ssh",
                "test \"$1\" != gone || { echo 'ssh: no route to host gone' >&2; exit 255; }\n"
                "echo \"$1\" >> '" +
                    dir.path() + "/hosts'; shift; exec sh -c \"$*\"\n");
  write_program(dir / "rank", rank_script);
  RemoteSpec spec;
  spec.hosts = {{"a", 2}, {"b", 1}};
  spec.world = 3;
  spec.ssh = {dir / "ssh"};
  spec.binary = dir / "rank";
  spec.coordinator = "a:4711";
  spec.directory = dir.path();
  spec.job_id = "42";
  spec.log_paths = {dir / "host-a", dir / "host-b"};
  return spec;
}

// `when_file` appears: `then` is called once.
struct Watch {
  std::string when_file;
  std::function<void()> then;
  TimeNs grace = 100 * kMilli;    // for the others when one has ended
  std::string* output = nullptr;  // of rank 0
};

Task<void> poll(Runtime& rt, Watch watch) {
  while (!std::filesystem::exists(watch.when_file)) co_await rt.sleep_for(5 * kMilli);
  watch.then();
}

Task<void> launch_into(Runtime& rt, const RemoteSpec& spec, Watch watch, Result<Exits>& out) {
  auto ranks = remote_ranks(spec);
  if (!ranks.ok()) {
    out = ranks.status();
    co_return;
  }
  if (watch.then) rt.spawn(poll(rt, watch));
  LaunchSpec options;
  options.world = spec.world;
  options.grace = watch.grace;
  if (watch.output != nullptr) options.output = [&watch](std::string_view text) { *watch.output += text; };
  out = co_await launch_ranks(rt, std::move(*ranks), options);
}

Result<Exits> launch(const RemoteSpec& spec, Watch watch = {}) {
  runtime::RealOptions options;
  options.compute_threads = 1;
  options.spin_ns = 0;
  const auto rt = runtime::make_real_runtime(options);
  Result<Exits> exits = error(Code::kInternal, "not run");
  rt->run(launch_into(*rt, spec, std::move(watch), exits));
  return exits;
}

TEST(Remote, ADroppedConnectionIsToldFromALostOne) {
  EXPECT_TRUE(is_dropped_connection("kex_exchange_identification: Connection closed by remote host\r\n"));
  EXPECT_TRUE(is_dropped_connection("banner\nkex_exchange_identification: read: Connection reset by peer\n"));
  EXPECT_TRUE(is_dropped_connection("Exceeded MaxStartups\n"));
  EXPECT_FALSE(is_dropped_connection("ssh: Could not resolve hostname gone\n"));
  EXPECT_FALSE(
      is_dropped_connection("kex_exchange_identification: x\nConnection to b closed by remote host.\n"));
  EXPECT_FALSE(is_dropped_connection(""));
}

TEST(ShellQuote, WordsSurviveAShell) {
  const TempDir dir;
  for (const std::string word :
       {"plain", "two words", "it's", "$HOME `x` \"q\" \\ *", "", "a\nb", "-n;&|<>"}) {
    const std::string command = "printf %s " + shell_quote(word) + " > '" + dir.path() + "/out'";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    EXPECT_EQ(content_of(dir / "out"), word);
  }
  EXPECT_EQ(shell_quote("a/b-c.d"), "a/b-c.d");
  EXPECT_EQ(split_words(" ssh  -p 22 "), (std::vector<std::string>{"ssh", "-p", "22"}));
  EXPECT_TRUE(split_words("  ").empty());
}

TEST(Remote, EveryRankStartsOnItsHostAndLearnsWhoItIs) {
  const TempDir dir;
  RemoteSpec spec = fake(dir,
                         "echo \"$TRIREME_RANK/$TRIREME_WORLD $TRIREME_LOCAL_RANK/$TRIREME_LOCAL_WORLD "
                         "$TRIREME_COORDINATOR ${TRIREME_RENDEZVOUS:-none} $1\" > rank-$TRIREME_RANK\n"
                         "echo first; printf 'said %s  %s' $TRIREME_RANK 'a\\b'");
  spec.arguments = {"it's one word"};
  std::string output;
  Watch watch;
  watch.output = &output;
  const Result<Exits> exits = launch(spec, watch);
  ASSERT_TRUE(exits.ok()) << exits.status().to_string();
  for (const RankExit& e : *exits) EXPECT_TRUE(e.status.ok()) << e.status.code;
  EXPECT_EQ(content_of(dir / "rank-0"), "0/3 0/2 a:4711 none it's one word\n");
  EXPECT_EQ(content_of(dir / "rank-1"), "1/3 1/2 a:4711 none it's one word\n");
  EXPECT_EQ(content_of(dir / "rank-2"), "2/3 0/1 a:4711 none it's one word\n");
  EXPECT_EQ(output, "first\nsaid 0  a\\b\n");
  EXPECT_EQ((*exits)[1].said, "said 1  a\\b");
  EXPECT_EQ((*exits)[2].said, "said 2  a\\b");
  const std::string hosts = content_of(dir / "hosts");
  EXPECT_TRUE(hosts == "a\nb\n" || hosts == "b\na\n") << "one connection for the two ranks of a: " << hosts;
}

TEST(HostReport, TellsRanksFromEachOtherAndFromSsh) {
  const HostReport report = parse_report(
      "Welcome to a\r\nj 1 >one\nj 10 >=7\nj 1 =0\nj 1 >\nj 10 =143\nj 2 ?\nj2 2 =0\nLost.\r\nj 3 =0", "j");
  ASSERT_EQ(report.ranks.size(), 2U);
  EXPECT_EQ(report.ranks.at(1).text, "one\n\n");
  EXPECT_EQ(report.ranks.at(1).code, 0);
  EXPECT_EQ(report.ranks.at(10).text, "=7\n");
  EXPECT_EQ(report.ranks.at(10).code, 143);
  EXPECT_EQ(report.other, "Lost.") << "a line that has no end yet is not read";
}

TEST(Remote, TheEndOfARankIsKnownWhileOthersOfItsHostRun) {
  const TempDir dir;
  RemoteSpec spec = fake(dir,
                         "case $TRIREME_RANK in 1) while ! test -e up; do sleep 0.02; done; kill -KILL $$;; "
                         "2) exit 3;; esac; trap '' TERM; echo > up; while :; do sleep 0.02; done");
  spec.hosts = {{"a", 3}};
  const Result<Exits> exits = launch(spec);
  ASSERT_TRUE(exits.ok()) << exits.status().to_string();
  EXPECT_TRUE((*exits)[0].killed_by_launcher) << "it was told by the ends of the others";
  EXPECT_EQ((*exits)[1].status.code, 128 + SIGKILL);
  EXPECT_EQ((*exits)[2].status.code, 3);
}

// The launcher is gone: its pipe closes.
TEST(Remote, RanksOfAHostAreAskedToStopWhenTheirInputCloses) {
  const TempDir dir;
  RemoteSpec spec = fake(dir,
                         "trap 'echo > stopped-$TRIREME_RANK; exit 130' TERM; echo > up-$TRIREME_RANK; "
                         "while :; do sleep 0.02; done");
  spec.hosts = {{"a", 3}};
  const auto hosts = remote_ranks(spec);
  ASSERT_TRUE(hosts.ok());
  ASSERT_EQ(hosts->size(), 1U);
  write_program(dir / "go", "while ! test -e up-0 || ! test -e up-1 || ! test -e up-2; do sleep 0.02; done");
  std::string command = "cd " + shell_quote(dir.path()) + "; ./go |";
  for (const std::string& word : (*hosts)[0].process.argv) command += " " + shell_quote(word);
  ASSERT_EQ(std::system((command + " > report").c_str()), 0);
  for (int r = 0; r < 3; ++r) {
    EXPECT_TRUE(std::filesystem::exists(dir / ("stopped-" + std::to_string(r)))) << r;
    EXPECT_EQ(parse_report(content_of(dir / "report"), "trireme-42").ranks.at(r).code, 130);
  }
}

TEST(Remote, RanksOfOneHostGetADirectoryToMeetInThatGoesWithRankZero) {
  const TempDir dir;
  setenv("TMPDIR", dir.path().c_str(), 1);
  RemoteSpec spec =
      fake(dir,
           "test -d \"$TRIREME_RENDEZVOUS\" || exit 9; echo $TRIREME_RENDEZVOUS > rank-$TRIREME_RANK\n"
           "test $TRIREME_RANK != 0 || while ! test -s rank-1 || ! test -s rank-2; do sleep 0.02; done");
  spec.hosts = {{"a", 3}};
  const Result<Exits> exits = launch(spec);
  unsetenv("TMPDIR");
  ASSERT_TRUE(exits.ok()) << exits.status().to_string();
  EXPECT_EQ(content_of(dir / "rank-0"), dir.path() + "/trireme-ssh-42\n");
  EXPECT_EQ(content_of(dir / "rank-2"), content_of(dir / "rank-0"));
}

TEST(Remote, AnInterruptReachesTheRanksAndTheyEndAsTheyWant) {
  const TempDir dir;
  const RemoteSpec spec =
      fake(dir,
           "trap 'exit 130' TERM; echo > up-$TRIREME_RANK\n"
           "test $TRIREME_RANK = 0 && { while ! test -e up-1 || ! test -e up-2; do sleep 0.02; "
           "done; echo > ready; }\n"
           "while :; do sleep 0.02; done");
  const Result<Exits> exits = launch(spec, {dir / "ready", [] { raise(SIGINT); }, 30 * kSecond});
  ASSERT_TRUE(exits.ok()) << exits.status().to_string();
  for (const RankExit& e : *exits) EXPECT_EQ(e.status.code, 130);
}

TEST(Remote, WhenOneFailsTheOthersAreEndedOnTheirHosts) {
  const TempDir dir;
  const RemoteSpec spec = fake(dir,
                               "echo $$ > pid-$TRIREME_RANK\n"
                               "test $TRIREME_RANK = 2 || { trap '' TERM; while :; do sleep 0.02; done; }\n"
                               "while ! test -s pid-0 || ! test -s pid-1; do sleep 0.02; done; exit 5");
  const Result<Exits> exits = launch(spec);
  ASSERT_TRUE(exits.ok()) << exits.status().to_string();
  EXPECT_EQ((*exits)[2].status.code, 5);
  for (const std::size_t r : {0, 1}) {
    EXPECT_TRUE((*exits)[r].killed_by_launcher);
    const int pid = std::atoi(content_of(dir / ("pid-" + std::to_string(r))).c_str());
    ASSERT_GT(pid, 1);
    EXPECT_NE(kill(pid, 0), 0) << "rank " << r << " still runs";
  }
}

TEST(Remote, AHostThatCannotBeReachedAndABinaryThatIsNotThereAreSeenByTheirCodes) {
  const TempDir dir;
  RemoteSpec spec = fake(dir, "exit 0");
  spec.hosts = {{"a", 2}, {"gone", 1}};
  Result<Exits> exits = launch(spec);
  ASSERT_TRUE(exits.ok()) << exits.status().to_string();
  EXPECT_EQ((*exits)[2].status.code, 255);
  EXPECT_EQ((*exits)[2].said, "ssh: no route to host gone");
  spec = fake(dir, "exit 0");
  spec.binary = dir / "no-such-binary";
  exits = launch(spec);
  ASSERT_TRUE(exits.ok()) << exits.status().to_string();
  for (const RankExit& e : *exits) EXPECT_EQ(e.status.code, 127);
}

}  // namespace
}  // namespace trireme::launch
