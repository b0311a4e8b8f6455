#include "tests/system/kill_campaign.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/system/binary.h"
#include "trireme/base/rng.h"

namespace trireme::system_test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kWatchdog{300'000};

std::vector<std::string> arguments(const std::string& run_dir) {
  std::vector<std::string> args{"train", "--quiet", "--workers", "2", "--run-dir", run_dir};
  for (const char* set :
       {"model.name=mlp", "train.logical_shards=4", "train.batch=40", "train.steps=40",
        "train.checkpoint_steps=3", "train.eval_steps=10", "data.limit_train=400", "data.limit_test=100"})
    args.insert(args.end(), {"--set", set});
  return args;
}

// A program in a process group of its own.
class Group {
 public:
  Group(const std::vector<std::string>& args, const std::string& log) {
    std::vector<std::string> texts{binary_path()};
    texts.insert(texts.end(), args.begin(), args.end());
    std::vector<char*> argv;
    for (std::string& t : texts) argv.push_back(t.data());
    argv.push_back(nullptr);
    posix_spawnattr_t attr;
    posix_spawn_file_actions_t files;
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    EXPECT_EQ(posix_spawn(&pid_, argv[0], &files, &attr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
  }

  // Waits until `end`; false: it still runs.
  bool ended_by(Clock::time_point end) {
    for (;;) {
      if (waitpid(pid_, &status_, WNOHANG) == pid_) return true;
      if (Clock::now() >= end) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  void kill_all() {
    (void)::kill(-pid_, SIGKILL);
    waitpid(pid_, &status_, 0);
  }
  bool succeeded() const { return WIFEXITED(status_) && WEXITSTATUS(status_) == 0; }

 private:
  pid_t pid_ = -1;
  int status_ = 0;
};

std::vector<std::string> metrics(const Workspace& w, const std::string& run_dir) {
  std::vector<std::string> lines;
  std::ifstream in(w / run_dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    Result<Json> json = parse_json(line, "metrics.jsonl");
    EXPECT_TRUE(json.ok()) << json.status().to_string();
    if (!json.ok()) continue;
    json->erase("seconds");
    lines.push_back(json->dump());
  }
  return lines;
}

bool has_checkpoint(const Workspace& w, const std::string& run_dir) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(w / run_dir + "/checkpoints", error))
    if (std::filesystem::exists(entry.path() / "manifest.json")) return true;
  return false;
}

}  // namespace

KillReport run_kill_campaign(int kills, std::uint64_t seed) {
  const Workspace w;
  KillReport report;
  // Drawn once, so that starts are alike.
  setenv("XDG_CACHE_HOME", (::testing::TempDir() + "trireme-system-cache").c_str(), 1);
  setenv("TRIREME_KERNELS", "default", 1);
  setenv("TRIREME_GPU_KERNELS", "none", 1);
  const std::string log = w / "log";
  const auto run_to_end = [&](const std::string& dir) {
    Group group(arguments(w / dir), log);
    if (!group.ended_by(Clock::now() + kWatchdog)) group.kill_all();
    EXPECT_TRUE(group.succeeded()) << w.read("log");
  };
  run_to_end("warm");
  const auto began = Clock::now();
  run_to_end("alone");
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began);
  const std::string expected = w.json("alone/summary.json").value("parameters_sha256", "");
  const std::vector<std::string> lines = metrics(w, "alone");
  EXPECT_EQ(expected.size(), 64U);

  Philox rng(seed, 0);
  const auto expect_same = [&](const std::string& dir) {
    ++report.runs;
    const Json summary = w.json(dir + "/summary.json");
    EXPECT_TRUE(summary.value("finished", false));
    EXPECT_EQ(summary.value("parameters_sha256", ""), expected) << "seed " << seed << ", " << dir;
    EXPECT_EQ(metrics(w, dir), lines) << dir;
  };
  while (report.kills < kills && !::testing::Test::HasFailure()) {
    const std::string dir = "run" + std::to_string(report.runs);
    Group group(arguments(w / dir), log);
    const auto moment = std::chrono::microseconds(
        rng.next_below(static_cast<std::uint64_t>(std::max<std::int64_t>(1, whole.count()))));
    if (group.ended_by(Clock::now() + moment)) {
      EXPECT_TRUE(group.succeeded()) << w.read("log");
      expect_same(dir);
      continue;
    }
    group.kill_all();
    ++report.kills;
    report.steps_saved += has_checkpoint(w, dir) ? 1 : 0;
  }
  const std::string last = "run" + std::to_string(report.runs);
  run_to_end(last);
  expect_same(last);
  return report;
}

}  // namespace trireme::system_test
