// What a run folder says while a command trains in it and afterwards: the lock, run.json, live metrics, and
// signals that must not lose anything.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <sstream>

#include "tests/system/binary.h"
#include "trireme/base/version.h"

namespace trireme::system_test {
namespace {

constexpr int kFailed = 1, kUsage = 2, kStopped = 130;
constexpr const char* kEndless = "train.steps=10000000";
constexpr const char* kFirstSave = "run/checkpoints/step-000000004/manifest.json";

std::vector<std::string> tiny(const std::vector<std::string>& sets,
                              const std::vector<std::string>& more = {}) {
  std::vector<std::string> args{"train"};
  args.insert(args.end(), more.begin(), more.end());
  args.insert(args.end(), {"--set", "model.name=mlp", "train.batch=20", "data.limit_train=60",
                           "data.limit_test=20", "train.checkpoint_steps=4"});
  args.insert(args.end(), sets.begin(), sets.end());
  return args;
}

// The same in another workspace, so that outputs do not meet.
Ran run_beside(const Workspace& at, const std::vector<std::string>& arguments) {
  const Workspace outputs;
  std::vector<std::string> argv{"/bin/sh", "-c", "cd \"$1\" && shift && exec \"$@\"", "sh", at.path()};
  argv.push_back(binary_path());
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return outputs.run_program(argv);
}

void expect_in(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << "lacks: " << part << "\nin: " << text;
}

bool exists(const Workspace& w, const std::string& name) { return std::filesystem::exists(w / name); }

TEST(RunFolder, ASecondCommandIsToldWhoTrainsThere) {
  const Workspace w;
  Ran second, info;
  std::string holder;
  const Ran first = w.run_until_file(
      tiny({kEndless}, {"--quiet", "--run-dir", "run"}), kFirstSave, [&](runtime::Process& process) {
        holder = std::to_string(process.pid());
        second = run_beside(w, tiny({kEndless}, {"--quiet", "--run-dir", "run"}));
        info = run_beside(w, {"checkpoint", "info", "run"});
        EXPECT_EQ(w.json("run/run.lock").value("pid", std::int64_t{0}), process.pid());
        (void)process.signal(runtime::ProcessSignal::kTerminate);
      });
  EXPECT_EQ(second.code, kUsage) << second.err;
  expect_in("error: run is being trained by process " + holder + " on ", second.err);
  expect_in("--run-dir", second.err);
  expect_in("run      running since 20", info.out);
  EXPECT_EQ(first.code, kStopped) << first.err;
  EXPECT_FALSE(exists(w, "run/run.lock"));
  const Json record = w.json("run/run.json");
  EXPECT_EQ(record.value("state", ""), "stopped");
  EXPECT_EQ(record.value("version", ""), version());
  EXPECT_FALSE(record.value("build", "").empty());
  expect_in("trireme train --quiet --run-dir run", record.value("command", ""));
  EXPECT_EQ(record.value("hosts", Json()).size(), 1U);
  EXPECT_GE(record.value("ended", ""), record.value("started", "z"));
  expect_in("run      stopped at 20", run_beside(w, {"checkpoint", "info", "run"}).out);
  std::istringstream lines(w.read("run/metrics.jsonl"));
  std::int64_t expected = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json row = *parse_json(line, "metrics.jsonl");
    if (!row.contains("loss")) continue;
    EXPECT_EQ(row.value("step", 0), ++expected) << "one writer";
  }
}

TEST(RunFolder, WithoutAFolderAnotherJobGetsTheNextNumberAndTheSameJobIsRefused) {
  const Workspace w;
  Ran same, other;
  const Ran first = w.run_until_file(
      tiny({kEndless}, {"--quiet"}), "runs/digits-1/checkpoints/step-000000004/manifest.json",
      [&](runtime::Process& process) {
        same = run_beside(w, tiny({kEndless}, {"--quiet"}));
        other = run_beside(w, tiny({"train.steps=4", "train.seed=2"}, {"--quiet"}));
        (void)process.signal(runtime::ProcessSignal::kTerminate);
      });
  EXPECT_EQ(first.code, kStopped) << first.err;
  EXPECT_EQ(same.code, kUsage);
  expect_in("runs/digits-1 is being trained by process ", same.err);
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(w.json("runs/digits-2/run.json").value("state", ""), "done");
  // The first one is found again behind the finished one.
  const Ran again = w.run(tiny({kEndless}, {"--quiet", "--fault", "0:error@collective:2"}));
  EXPECT_EQ(again.code, kFailed);
  EXPECT_EQ(w.json("runs/digits-1/run.json").value("state", ""), "failed");
  EXPECT_FALSE(exists(w, "runs/digits-3"));
}

TEST(RunFolder, AKilledRunIsShownAsDiedAndTakenOver) {
  const Workspace w;
  const std::vector<std::string> sets{"train.steps=12"};
  const Ran killed = w.run(tiny(sets, {"--quiet", "--run-dir", "run", "--fault", "0:kill@collective:16"}));
  EXPECT_EQ(killed.signal, SIGKILL);
  EXPECT_EQ(w.json("run/run.json").value("state", ""), "running");
  EXPECT_TRUE(exists(w, "run/run.lock")) << "nobody was left to remove it";
  expect_in("run      died (started 20", w.run({"checkpoint", "info", "run"}).out);
  const Ran other = w.run(tiny({"train.steps=12", "train.seed=2"}, {"--quiet", "--run-dir", "run"}));
  EXPECT_EQ(other.code, kUsage);
  expect_in("run holds an unfinished run of a different job, died (started 20", other.err);
  const Ran again = w.run(tiny(sets, {"--quiet", "--run-dir", "run"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(w.json("run/run.json").value("state", ""), "done");
  EXPECT_FALSE(exists(w, "run/run.lock"));
  const Json info = *parse_json(w.run({"checkpoint", "info", "run", "--json"}).out, "info");
  EXPECT_EQ(info["run"].value("state", ""), "done");
}

TEST(RunFolder, AFailureLeavesItsReasonAndAmongSeveralWorkersTheCulprit) {
  const Workspace w;
  const Ran alone =
      w.run(tiny({"train.steps=12"}, {"--quiet", "--run-dir", "alone", "--fault", "0:error@collective:6"}));
  EXPECT_EQ(alone.code, kFailed) << alone.err;
  const Json one = w.json("alone/run.json");
  EXPECT_EQ(one.value("state", ""), "failed");
  EXPECT_FALSE(one.value("reason", "").empty());
  EXPECT_TRUE(one["ended"].is_string());
  const Ran ran = w.run(tiny({"train.steps=12"}, {"--quiet", "--run-dir", "run", "--workers", "3", "--fault",
                                                  "1:kill@collective:6"}));
  EXPECT_EQ(ran.code, kFailed) << ran.err;
  const Json record = w.json("run/run.json");
  EXPECT_EQ(record.value("state", ""), "failed");
  EXPECT_EQ(record["culprit"], 1) << record.dump(2);
  EXPECT_TRUE(record.contains("operation")) << record.dump(2);  // empty: nobody waited for it yet
  EXPECT_FALSE(record.value("reason", "").empty()) << record.dump(2);
}

// The shell and the system both send it: the second must not end what the first has asked for.
TEST(RunFolder, AHangupSavesAndStopsOneWorkerAndSeveral) {
  for (const char* workers : {"1", "3"}) {
    SCOPED_TRACE(workers);
    const Workspace w;
    const Ran ran = w.run_until_file(tiny({kEndless}, {"--quiet", "--run-dir", "run", "--workers", workers}),
                                     kFirstSave, [](runtime::Process& process) {
                                       for (int i = 0; i < 3; ++i)
                                         kill(static_cast<pid_t>(process.pid()), SIGHUP);
                                     });
    EXPECT_EQ(ran.code, kStopped) << ran.signal << ran.err;
    EXPECT_EQ(w.json("run/run.json").value("state", ""), "stopped");
    const Json summary = w.json("run/summary.json");
    EXPECT_FALSE(summary.value("finished", true));
    const auto steps = summary.value("steps", std::int64_t{0});
    EXPECT_GE(steps, 4);
    EXPECT_TRUE(exists(w, fmt::format("run/checkpoints/step-{:09}/manifest.json", steps)));
  }
}

TEST(RunFolder, UnderNohupAHangupIsNothing) {
  const Workspace w;
  std::vector<std::string> argv{"/bin/sh", "-c",
                                ("trap '' HUP; \"$@\" & until [ -e run/plan.json ]; do sleep 0.05; done; "
                                 "kill -HUP $!; wait $!"),
                                "sh", binary_path()};
  const std::vector<std::string> args = tiny({"train.steps=300"}, {"--quiet", "--run-dir", "run"});
  argv.insert(argv.end(), args.begin(), args.end());
  const Ran ran = w.run_program(argv);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(w.json("run/run.json").value("state", ""), "done");
}

TEST(RunFolder, AReaderThatGoesAwayDoesNotStopTraining) {
  for (const char* workers : {"1", "2"}) {
    SCOPED_TRACE(workers);
    const Workspace w;
    std::vector<std::string> argv{"/bin/sh", "-c", "{ \"$@\" 2>&1; echo $? > code; } | head -1", "sh",
                                  binary_path()};
    const std::vector<std::string> args =
        tiny({"train.steps=40"}, {"--run-dir", "run", "--workers", workers});
    argv.insert(argv.end(), args.begin(), args.end());
    const Ran ran = w.run_program(argv);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(w.json("run/run.json").value("state", ""), "done") << w.read("code");
    EXPECT_TRUE(w.json("run/summary.json").value("finished", false));
  }
}

TEST(RunFolder, MetricsAreInTheFileBeforeTheFirstCheckpoint) {
  const Workspace w;
  const Ran ran = w.run_until_file(
      tiny({kEndless, "train.checkpoint_steps=10000000", "train.keep_best=false"},
           {"--quiet", "--run-dir", "run"}),
      "run/metrics.jsonl", [&](runtime::Process& process) {
        const Workspace outputs;
        // The watchdog ends the wait when nothing ever comes.
        const Ran waited = outputs.run_program(
            {"/bin/sh", "-c", "until [ -s \"$1\" ]; do sleep 0.05; done", "sh", w / "run/metrics.jsonl"});
        EXPECT_EQ(waited.code, 0);
        EXPECT_TRUE(std::filesystem::is_empty(w / "run/checkpoints"));
        (void)process.signal(runtime::ProcessSignal::kTerminate);
      });
  EXPECT_EQ(ran.code, kStopped) << ran.err;
}

TEST(RunFolder, WhatWouldBeIgnoredIsRefused) {
  const Workspace w;
  expect_refused(w, {{tiny({"train.steps=2"}, {"--workers", "2", "--coordinator", "nonsense"}), kUsage,
                      "--coordinator nonsense would not be used"},
                     {{"simulate", "--ranks", "4", "--fault", "99:kill@collective:3"},
                      kUsage,
                      "--fault got rank 99, expected 0 to 3"},
                     {{"simulate", "--ranks", "4", "--fault", "pause,rank=4,at=1ms,duration=1s"},
                      kUsage,
                      "--fault got rank 4, expected 0 to 3"},
                     {{"simulate", "allreduce", "--ranks", "4", "--fault", "9:kill@collective:3"},
                      kUsage,
                      "--fault got rank 9, expected 0 to 3"}});
  EXPECT_FALSE(exists(w, "runs"));
}

TEST(RunFolder, RanksThatSomebodyElseStartedLeaveTheSame) {
  const Workspace w;
  std::vector<std::string> argv{
      "/bin/sh", "-c",
      ("for R in 0 1; do export TRIREME_RANK=$R TRIREME_WORLD=2 TRIREME_RENDEZVOUS=.; \"$@\" & pids=\"$pids "
       "$!\"; done; code=0; for p in $pids; do wait $p || code=$?; done; exit $code"),
      "sh", binary_path()};
  const std::vector<std::string> args = tiny({"train.steps=8"}, {"--quiet", "--run-dir", "run"});
  argv.insert(argv.end(), args.begin(), args.end());
  const Ran ran = w.run_program(argv);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json record = w.json("run/run.json");
  EXPECT_EQ(record.value("state", ""), "done");
  expect_in("train --quiet --run-dir run", record.value("command", ""));
  EXPECT_EQ(record.value("hosts", Json()).size(), 1U) << "two ranks of one host";
  EXPECT_FALSE(exists(w, "run/run.lock"));
}

TEST(RunFolder, ALeadIsTheLargestOfTheWorkers) {
  const Workspace w;
  const Ran ran = w.run(tiny({"train.steps=12", "parallel.agreement=ssp-peer", "parallel.staleness=1"},
                             {"--quiet", "--run-dir", "run", "--workers", "3", "--transport", "inproc"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_LE(w.json("run/summary.json")["rule"].value("max_lead", 99), 1);
}

}  // namespace
}  // namespace trireme::system_test
