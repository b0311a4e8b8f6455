#include "trireme/record/run_folder.h"

#include <gtest/gtest.h>

#include <functional>

#include "trireme/record/extend_run.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::record {
namespace {

using runtime::Runtime;
using runtime::Task;

Task<void> open_into(Runtime& rt, const job::Job& job, std::string dir, Result<RunFolder>& out) {
  out = co_await open_run_folder(rt, job, dir, "runs");
}

Task<void> write_file(Runtime& rt, std::string path, std::string text) {
  Status done = co_await rt.files().make_dirs(path.substr(0, path.rfind('/')));
  EXPECT_TRUE(done.ok());
  done = co_await rt.files().write(path, as_bytes(text));
  EXPECT_TRUE(done.ok()) << done.to_string();
}

Task<void> read_file(Runtime& rt, std::string path, std::string& out) {
  Result<Bytes> bytes = co_await rt.files().read(path);
  out = bytes.ok() ? std::string(as_text(*bytes)) : "no file";
}

Task<void> exists(Runtime& rt, std::string path, bool& out) {
  const Result<bool> there = co_await rt.files().exists(path);
  out = there.ok() && *there;
}

class RunFolderTest : public testing::Test {
 protected:
  RunFolderTest() {
    runtime::WorldSpec spec;
    spec.topology = cost::Topology::single_switch(1, {}, {});
    world_ = runtime::make_virtual_world(spec);
    rt_ = &world_->add_runtime(0, "rank");
  }
  void run(Task<void> task) {
    world_->start(*rt_, std::move(task));
    const auto report = world_->run(kForever);
    ASSERT_TRUE(report.finished) << report.stuck;
  }
  Result<RunFolder> open(const job::Job& job, const std::string& dir = "") {
    Result<RunFolder> folder = error(Code::kInternal, "not run");
    run(open_into(*rt_, job, dir, folder));
    return folder;
  }
  std::string path_of(const job::Job& job, const std::string& dir = "") {
    const Result<RunFolder> folder = open(job, dir);
    return folder.ok() ? folder->path : folder.status().to_string();
  }
  void write(const std::string& path, const std::string& text) { run(write_file(*rt_, path, text)); }
  void finish(const std::string& folder) {
    write(folder + "/summary.json", R"({"finished": true, "steps": 7})");
  }
  std::string read(const std::string& path) {
    std::string text;
    run(read_file(*rt_, path, text));
    return text;
  }
  bool is_there(const std::string& path) {
    bool there = false;
    run(exists(*rt_, path, there));
    return there;
  }

  std::unique_ptr<runtime::VirtualWorld> world_;
  Runtime* rt_ = nullptr;
};

TEST_F(RunFolderTest, IsMadeNewWithTheJobAndItsFolders) {
  const Result<RunFolder> folder = open(job::Job());
  ASSERT_TRUE(folder.ok()) << folder.status().to_string();
  EXPECT_EQ(folder->path, "runs/digits-1");
  EXPECT_FALSE(folder->resumed);
  EXPECT_FALSE(folder->finished.has_value());
  EXPECT_EQ(read("runs/digits-1/job.toml"), job::to_toml(job::Job()));
  EXPECT_TRUE(is_there(folder->checkpoints()));
  EXPECT_EQ(folder->checkpoints(), "runs/digits-1/checkpoints");
  EXPECT_EQ(folder->log_of(3), "runs/digits-1/log/rank-3.log");
  EXPECT_TRUE(is_there("runs/digits-1/log"));
}

TEST_F(RunFolderTest, AnUnfinishedRunOfTheSameJobIsResumed) {
  ASSERT_TRUE(open(job::Job()).ok());
  const Result<RunFolder> again = open(job::Job());
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->path, "runs/digits-1");
  EXPECT_TRUE(again->resumed);
}

TEST_F(RunFolderTest, AfterAFinishedRunTheNextNumberIsTaken) {
  EXPECT_EQ(path_of(job::Job()), "runs/digits-1");
  finish("runs/digits-1");
  const Result<RunFolder> next = open(job::Job());
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->path, "runs/digits-2");
  EXPECT_FALSE(next->resumed);
  finish("runs/digits-2");
  write("runs/digits-10/job.toml", job::to_toml(job::Job()));
  EXPECT_EQ(path_of(job::Job()), "runs/digits-10") << "numbers, not texts, are compared";
}

TEST_F(RunFolderTest, OtherJobsAndOtherNamesDoNotCount) {
  for (const char* other :
       {"runs/other-7", "runs/digits-x", "runs/digits-3b", "runs/digits-", "runs/digits-big-4"})
    write(std::string(other) + "/job.toml", "");
  EXPECT_EQ(path_of(job::Job()), "runs/digits-1");
}

TEST_F(RunFolderTest, ARunStoppedHalfWayOrWithADamagedSummaryIsUnfinished) {
  ASSERT_TRUE(open(job::Job()).ok());
  for (const char* summary : {R"({"finished": false})", "{\"finished\": tr", "", "[]", "3",
                              R"({"finished": 1})", R"({"steps": 4})"}) {
    write("runs/digits-1/summary.json", summary);
    const Result<RunFolder> folder = open(job::Job());
    ASSERT_TRUE(folder.ok()) << summary;
    EXPECT_EQ(folder->path, "runs/digits-1") << summary;
    EXPECT_TRUE(folder->resumed) << summary;
  }
}

TEST_F(RunFolderTest, AnExplicitFolderThatIsFinishedGivesItsSummaryAndIsLeftAlone) {
  EXPECT_EQ(path_of(job::Job(), "my/run"), "my/run");
  finish("my/run");
  job::Job same;
  same.parallel.workers = 2;
  const Result<RunFolder> folder = open(same, "my/run");
  ASSERT_TRUE(folder.ok()) << folder.status().to_string();
  ASSERT_TRUE(folder->finished.has_value());
  EXPECT_EQ((*folder->finished)["steps"], 7);
  EXPECT_EQ(read("my/run/job.toml"), job::to_toml(job::Job()));
}

TEST_F(RunFolderTest, AFinishedRunOfAnotherJobIsRefusedWithTheKeysThatDiffer) {
  ASSERT_TRUE(open(job::Job(), "my/run").ok());
  finish("my/run");
  job::Job other;
  other.train.batch = 5;
  job::Job shorter, switched;
  shorter.train.epochs = 3;
  switched.train.steps = 100;
  job::Job longer_and_other = other;
  longer_and_other.train.epochs = 8;
  for (const job::Job& job : {other, shorter, switched, longer_and_other}) {
    const Status status = open(job, "my/run").status();
    EXPECT_EQ(status.code(), Code::kInvalid);
    EXPECT_NE(status.message().find("holds a finished run of a different job:\n  train."), std::string::npos)
        << status.message();
  }
  EXPECT_TRUE(open(job::Job(), "my/run")->finished.has_value()) << "the refusals changed nothing";
}

TEST_F(RunFolderTest, AFinishedRunGoesOnWhereMoreEpochsOrStepsAreAskedFor) {
  job::Job job, longer;
  longer.train.epochs = 8;
  ASSERT_TRUE(open(job, "my/run").ok());
  write("my/run/plan.json", R"({"job_sha256": "old", "kept": 1})");
  finish("my/run");
  Result<RunFolder> folder = open(longer, "my/run");
  ASSERT_TRUE(folder.ok()) << folder.status().to_string();
  EXPECT_TRUE(folder->resumed);
  EXPECT_FALSE(folder->finished.has_value());
  folder->lock.reset();  // the command has ended
  EXPECT_EQ(read("my/run/job.toml"), job::to_toml(longer));
  const Json plan = *parse_json(read("my/run/plan.json"), "plan.json");
  EXPECT_EQ(plan["job_sha256"], job::job_sha256(longer));
  EXPECT_EQ(plan["kept"], 1);
  EXPECT_FALSE(is_there("my/run/summary.json"));
  EXPECT_TRUE(open(longer, "my/run")->resumed) << "a second start goes on too";
  job::Job steps = job, more_steps = job;
  steps.train.steps = 10;
  more_steps.train.steps = 11;
  EXPECT_TRUE(trains_longer(steps, more_steps));
  EXPECT_FALSE(trains_longer(more_steps, steps));
  EXPECT_FALSE(trains_longer(job, more_steps)) << "epochs and steps cannot be compared without the data";
}

// Between the new job.toml and the removal of the old summary.
TEST_F(RunFolderTest, ARunThatBeganToTrainLongerIsUnfinishedWhateverItsOldSummarySays) {
  job::Job job, longer;
  longer.train.epochs = 8;
  ASSERT_TRUE(open(longer, "my/run").ok());
  const std::string summary = Json{{"finished", true}, {"job_sha256", job::job_sha256(job)}}.dump();
  write("my/run/summary.json", summary);
  const Result<RunFolder> folder = open(longer, "my/run");
  ASSERT_TRUE(folder.ok()) << folder.status().to_string();
  EXPECT_TRUE(folder->resumed);
  EXPECT_FALSE(folder->finished.has_value());
}

TEST_F(RunFolderTest, AnUnfinishedRunOfAnotherJobIsRefusedWithTheKeysThatDiffer) {
  for (const std::string dir : {"", "my/run"}) {
    ASSERT_TRUE(open(job::Job(), dir).ok());
    write((dir.empty() ? "runs/digits-1" : dir) + "/plan.json", "{}");
    job::Job other;
    other.train.batch = 64;
    const Status status = open(other, dir).status();
    EXPECT_EQ(status.code(), Code::kInvalid);
    EXPECT_NE(status.message().find("  train.batch: 128 -> 64\n"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("--run-dir"), std::string::npos) << status.message();
    EXPECT_TRUE(open(job::Job(), dir).ok()) << "the refusal changed nothing";
  }
}

TEST_F(RunFolderTest, AStartThatFailedBeforeItsPlanMayBeCorrected) {
  ASSERT_TRUE(open(job::Job(), "my/run").ok());
  job::Job other;
  other.train.batch = 64;
  const Result<RunFolder> folder = open(other, "my/run");
  ASSERT_TRUE(folder.ok()) << folder.status().to_string();
  EXPECT_EQ(read("my/run/job.toml"), job::to_toml(other));
}

TEST_F(RunFolderTest, ARunMayBeResumedWithAnotherNumberOfWorkers) {
  ASSERT_TRUE(open(job::Job()).ok());
  job::Job more;
  more.parallel.workers = 3;
  const Result<RunFolder> folder = open(more);
  ASSERT_TRUE(folder.ok()) << folder.status().to_string();
  EXPECT_TRUE(folder->resumed);
  EXPECT_EQ(read("runs/digits-1/job.toml"), job::to_toml(more));
}

TEST_F(RunFolderTest, AFolderWithoutAJobIsTakenAsNew) {
  write("my/run/notes.txt", "mine");
  const Result<RunFolder> folder = open(job::Job(), "my/run");
  ASSERT_TRUE(folder.ok());
  EXPECT_FALSE(folder->resumed);
  EXPECT_EQ(read("my/run/notes.txt"), "mine");
}

}  // namespace
}  // namespace trireme::record
