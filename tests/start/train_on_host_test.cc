// A job that a program starts: ranks as threads. Ranks as processes: examples/train_on_processes.cc.
#include "trireme/start/train_on_host.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "trireme/start/failed_ranks.h"

namespace trireme::start {
namespace {

HostRun small_run(const char* folder, std::initializer_list<const char*> keys) {
  HostRun run;
  for (const char* key : {"train.steps=2", "train.batch=8", "data.limit_train=16", "data.limit_test=8"})
    EXPECT_TRUE(job::set_job_key(run.job, key).ok()) << key;
  for (const char* key : keys) EXPECT_TRUE(job::set_job_key(run.job, key).ok()) << key;
  run.run_dir = testing::TempDir() + folder;
  std::filesystem::remove_all(run.run_dir);
  return run;
}

TEST(TrainOnHost, ThreadsTrainAndTheFolderOfAFinishedRunIsItsAnswer) {
  HostRun run = small_run("train_on_host_threads", {"parallel.workers=2", "parallel.transport=inproc"});
  std::vector<std::string> told;
  run.observer.doing = [&told](std::string_view text, TimeNs) { told.emplace_back(text); };
  const Result<Trained> trained = train_on_host(run);
  ASSERT_TRUE(trained.ok()) << trained.status().message();
  EXPECT_EQ(trained->run_dir, run.run_dir);
  EXPECT_TRUE(trained->summary.value("finished", false));
  EXPECT_EQ(trained->summary.value("workers", 0), 2);
  EXPECT_EQ(told, (std::vector<std::string>{"reading the data ...", ""}));
  const Result<Trained> again = train_on_host(run);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->summary, trained->summary);
}

TEST(TrainOnHost, ProcessesNeedACommandAndTroubleARankOfTheJob) {
  const Status no_command = train_on_host(small_run("train_on_host_none", {"parallel.workers=2"})).status();
  EXPECT_EQ(no_command.code(), Code::kInvalid);
  EXPECT_NE(no_command.message().find("rank_command"), std::string::npos) << no_command.message();
  HostRun slow = small_run("train_on_host_slow", {});
  slow.slow = {{.rank = 1, .factor = 2}};
  EXPECT_EQ(train_on_host(slow).status().code(), Code::kInvalid);
  HostRun faulty = small_run("train_on_host_fault", {});
  faulty.faults = {{.rank = 3, .fault = {}}};
  EXPECT_EQ(train_on_host(faulty).status().code(), Code::kInvalid);
}

TEST(FailedRanks, OnlyARankThatTheJobCanSpareIsLost) {
  std::vector<launch::RankExit> exits(3);
  EXPECT_TRUE(lost_ranks(exits, {}, kSecond)->empty());
  exits[2].status.signal = 9;
  const auto lost = lost_ranks(exits, {false, true, true}, kSecond);
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(*lost, std::vector<std::string>{"worker 2 died by signal 9; the others continued without it"});
  EXPECT_FALSE(lost_ranks(exits, {false, true, false}, kSecond).has_value());
  exits[0].status.code = 1;
  EXPECT_FALSE(lost_ranks(exits, {false, true, true}, kSecond).has_value());
}

std::string remote_failure(const job::Roles& roles) {
  launch::RemoteSpec spec;
  spec.hosts = {{.name = "near", .slots = 2}, {.name = "far", .slots = 2}};
  spec.ssh = {"ssh"};
  std::vector<launch::RankExit> exits(4);
  for (const std::size_t r : {1U, 2U, 3U}) exits[r].status.code = 1;
  exits[1].said = "error: rank 1: [files] the disk is full";
  return describe_remote_failure(spec, roles, {0, 0, 1, 1}, exits).message();
}

TEST(FailedRanks, OnOtherHostsAreCalledByTheirCoordinatesWhereTheMeshHasSeveralAxes) {
  job::Job job;
  job.parallel.workers = 4;
  EXPECT_EQ(remote_failure(job::roles_of(job)),
            "[launch] the job failed:\n  rank 1 on near: [files] the disk is full\n"
            "  rank 2, 3 on far: ended with code 1\nthe same command resumes from the last checkpoint");
  EXPECT_EQ(remote_failure(job::roles_of(job, parallel::Mesh{{{"data", 2}, {"model", 2}}})),
            "[launch] the job failed:\n  rank 1 (data 0, model 1) on near: [files] the disk is full\n"
            "  rank 2 (data 1, model 0), 3 (data 1, model 1) on far: ended with code 1\n"
            "the same command resumes from the last checkpoint");
}

}  // namespace
}  // namespace trireme::start
