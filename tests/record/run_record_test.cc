// run.json and the lock of run folders, on one virtual machine.
#include "trireme/record/run_record.h"

#include <gtest/gtest.h>

#include "trireme/base/version.h"
#include "trireme/record/run_folder.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::record {
namespace {

using runtime::Runtime;
using runtime::Task;

const RunOwner kOwner{"box", 4711, "trireme train my.toml"};

TEST(RunRecord, TimesAreUtc) {
  EXPECT_EQ(utc_text(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(utc_text(1'794'872'101 * kSecond + 999), "2026-11-16T23:35:01Z");
  EXPECT_EQ(utc_text(951'782'399 * kSecond), "2000-02-28T23:59:59Z");
  EXPECT_EQ(utc_text(951'782'400 * kSecond), "2000-02-29T00:00:00Z");
}

TEST(RunRecord, HasEveryFieldFromTheStartAndComesBackFromItsJson) {
  RunRecord record = begin_record(kOwner, 0);
  const Json begun = to_json(record);
  for (const char* key : {"version", "build", "command", "hosts", "started", "ended", "state", "culprit",
                          "operation", "reason"})
    EXPECT_TRUE(begun.contains(key)) << key;
  EXPECT_EQ(begun["version"], version());
  EXPECT_EQ(begun["build"], build_id());
  EXPECT_EQ(begun["command"], kOwner.command);
  EXPECT_EQ(begun["hosts"], Json({"box"}));
  EXPECT_EQ(begun["state"], "running");
  EXPECT_TRUE(begun["ended"].is_null());
  const Status failure(
      Code::kPeerLost, "[comm] rank 2 left",
      {.rank = 0, .peer = 2, .operation = "allreduce, step 7", .tag = "", .reason = "closed"});
  end_record(record, RunState::kFailed, failure, {}, kSecond);
  EXPECT_FALSE(to_json(record).contains("coordinates"));
  const Result<RunRecord> back = run_record_from_json(to_json(record));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(to_json(*back), to_json(record));
  EXPECT_EQ(back->culprit, 2);
  EXPECT_EQ(back->operation, "allreduce, step 7");
  EXPECT_EQ(back->reason, "closed");
  EXPECT_EQ(describe(*back), "failed at 1970-01-01T00:00:01Z: rank 2: closed");
}

TEST(RunRecord, ACulpritIsCalledByItsCoordinatesWhereTheMeshHasSeveralAxes) {
  job::Job job;
  job.parallel.workers = 4;
  const job::Roles roles = job::roles_of(job, parallel::Mesh{{{"data", 2}, {"model", 2}}});
  RunRecord record = begin_record(kOwner, 0);
  const Status failure(Code::kPeerLost, "[comm] rank 2 (data 1, model 0) left",
                       {.rank = 0, .peer = 2, .operation = "vote", .tag = "", .reason = "closed"});
  end_record(record, RunState::kFailed, failure, roles, 0);
  EXPECT_EQ(to_json(record).at("coordinates"), (Json{{"data", 1}, {"model", 0}}));
  const Result<RunRecord> back = run_record_from_json(to_json(record));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(describe(*back), "failed at 1970-01-01T00:00:00Z: rank 2 (data 1, model 0): closed");
  Json json = to_json(record);
  for (const char* text : {"3", "[1, 0]", R"({"data": "one"})"}) {
    json["coordinates"] = *parse_json(text, "run.json");
    EXPECT_NE(run_record_from_json(json).status().message().find("coordinates"), std::string::npos) << text;
  }
}

TEST(RunRecord, AFailureWithoutAReasonLeavesItsMessage) {
  RunRecord record = begin_record(kOwner, 0);
  end_record(record, RunState::kFailed, Status(Code::kExhausted, "[files] the disk is full"), {}, 0);
  EXPECT_EQ(record.reason, "[files] the disk is full");
  EXPECT_FALSE(record.culprit.has_value());
}

TEST(RunRecord, JsonOfAnotherShapeIsRefused) {
  for (const char* text : {"{}", "[]", "3", R"({"version": 1})"})
    EXPECT_FALSE(run_record_from_json(*parse_json(text, "run.json")).ok()) << text;
  Json json = to_json(begin_record(kOwner, 0));
  json["state"] = "flying";
  EXPECT_NE(run_record_from_json(json).status().message().find("flying"), std::string::npos);
}

TEST(RunRecord, AHolderIsDescribedWhateverItWrote) {
  EXPECT_EQ(describe_holder(holder_text(kOwner, 0)),
            "process 4711 on box since 1970-01-01T00:00:00Z (trireme train my.toml)");
  for (const char* text : {"", "{", "[]", "3", "{}", R"({"pid": "x"})"})
    EXPECT_EQ(describe_holder(text), "another process") << text;
  const std::string bytes = holder_text({"box", 1, "trireme train caf\xe9.toml"}, 0);
  EXPECT_NE(describe_holder(bytes).find("process 1 on box"), std::string::npos) << "not UTF-8";
}

class RunLockTest : public testing::Test {
 protected:
  RunLockTest() {
    runtime::WorldSpec spec;
    spec.topology = cost::Topology::single_switch(1, {}, {});
    world_ = runtime::make_virtual_world(spec);
    rt_ = &world_->add_runtime(0, "command");
  }
  void run(Task<void> task) {
    world_->start(*rt_, std::move(task));
    const auto report = world_->run(kForever);
    ASSERT_TRUE(report.finished) << report.stuck;
  }
  Result<RunFolder> open(const job::Job& job, const std::string& dir = "") {
    Result<RunFolder> folder = error(Code::kInternal, "not run");
    run([](Runtime& rt, const job::Job& j, std::string d, Result<RunFolder>& out) -> Task<void> {
      out = co_await open_run_folder(rt, j, d, "runs", kOwner);
    }(*rt_, job, dir, folder));
    return folder;
  }
  std::string message(const job::Job& job, const std::string& dir = "") {
    const Status status = open(job, dir).status();
    EXPECT_EQ(status.code(), Code::kInvalid);
    return status.message();
  }
  void close(RunFolder& folder, RunState state, const Status& failure = {}) {
    run([](Runtime& rt, RunFolder& f, RunState s, Status why) -> Task<void> {
      RunEnding ending;
      ending.state = s;
      ending.failure = why;
      const Status closed = co_await close_run_folder(rt, f, std::move(ending));
      EXPECT_TRUE(closed.ok()) << closed.to_string();
    }(*rt_, folder, state, failure));
  }
  void write(const std::string& path, const std::string& text) {
    run([](Runtime& rt, std::string p, std::string t) -> Task<void> {
      const Status written = co_await rt.files().write(p, as_bytes(t));
      EXPECT_TRUE(written.ok()) << written.to_string();
    }(*rt_, path, text));
  }
  Result<RunRecord> record(const std::string& dir) {
    Result<RunRecord> found = error(Code::kInternal, "not run");
    run([](Runtime& rt, std::string d, Result<RunRecord>& out) -> Task<void> {
      out = co_await read_run_record(rt, d);
    }(*rt_, dir, found));
    return found;
  }
  static job::Job other_job() {
    job::Job job;
    job.train.seed = 2;
    return job;
  }

  std::unique_ptr<runtime::VirtualWorld> world_;
  Runtime* rt_ = nullptr;
};

TEST_F(RunLockTest, ASecondCommandIsToldWhoTrainsInTheFolder) {
  const Result<RunFolder> first = open(job::Job(), "my/run");
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  for (const job::Job& job : {job::Job(), other_job()}) {
    const std::string text = message(job, "my/run");
    EXPECT_NE(text.find("my/run is being trained by process 4711 on box since "), std::string::npos) << text;
    EXPECT_NE(text.find("(trireme train my.toml)"), std::string::npos) << text;
    EXPECT_EQ(text.find("unfinished"), std::string::npos) << text;
  }
}

TEST_F(RunLockTest, WithoutAFolderTheSameJobIsRefusedWhileItRunsAndAnotherGetsTheNextNumber) {
  Result<RunFolder> first = open(job::Job());
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  write("runs/digits-1/plan.json", "{}");
  EXPECT_NE(message(job::Job()).find("runs/digits-1 is being trained by process 4711"), std::string::npos);
  Result<RunFolder> second = open(other_job());
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  EXPECT_EQ(second->path, "runs/digits-2");
  write("runs/digits-2/plan.json", "{}");
  // Each of them goes on in its own folder, in whichever order.
  close(*first, RunState::kStopped);
  close(*second, RunState::kStopped);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(open(job::Job())->path, "runs/digits-1");
    EXPECT_EQ(open(other_job())->path, "runs/digits-2");
  }
}

TEST_F(RunLockTest, TheLockGoesWithTheFolder) {
  {
    const Result<RunFolder> first = open(job::Job());
    ASSERT_TRUE(first.ok());
  }
  const Result<RunFolder> again = open(job::Job());
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_TRUE(again->resumed);
}

TEST_F(RunLockTest, TheRecordSaysHowTheRunStands) {
  EXPECT_EQ(record("my/run").status().code(), Code::kNotFound);
  {
    Result<RunFolder> folder = open(job::Job(), "my/run");
    ASSERT_TRUE(folder.ok());
    EXPECT_EQ(record("my/run")->state, RunState::kRunning);
  }
  EXPECT_EQ(record("my/run")->state, RunState::kDied) << "it says that it runs, and nobody holds the lock";
  for (const RunState state : {RunState::kStopped, RunState::kFailed, RunState::kDone}) {
    Result<RunFolder> folder = open(job::Job(), "my/run");
    ASSERT_TRUE(folder.ok());
    EXPECT_EQ(record("my/run")->state, RunState::kRunning) << "a new command begins a new record";
    close(*folder, state, state == RunState::kFailed ? error(Code::kInternal, "why") : Status());
    EXPECT_EQ(record("my/run")->state, state);
    EXPECT_FALSE(record("my/run")->ended.empty());
    EXPECT_EQ(record("my/run")->reason, state == RunState::kFailed ? "why" : "");
  }
}

TEST_F(RunLockTest, AnUnfinishedRunOfAnotherJobIsRefusedWithHowItStands) {
  {
    const Result<RunFolder> folder = open(job::Job(), "my/run");
    ASSERT_TRUE(folder.ok());
    write("my/run/plan.json", "{}");
  }
  EXPECT_NE(message(other_job(), "my/run").find("unfinished run of a different job, died (started "),
            std::string::npos);
  Result<RunFolder> folder = open(job::Job(), "my/run");
  close(*folder, RunState::kStopped);
  EXPECT_NE(message(other_job(), "my/run").find("unfinished run of a different job, stopped at "),
            std::string::npos);
  EXPECT_EQ(record("my/run")->state, RunState::kStopped) << "the refusal changed nothing";
}

}  // namespace
}  // namespace trireme::record
