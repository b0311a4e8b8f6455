// Turns and Meeting, by rules made for the purpose that the quadratic trainer drives.
#include "trireme/agree/mechanism/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/agree/quadratic.h"
#include "trireme/agree/mechanism/meeting.h"

namespace trireme::agree {
namespace {

using runtime::Task;
using ::testing::ElementsAre;
using testing::QuadraticJob;
using testing::QuadraticRun;
using testing::run_well;

struct Visit {
  int worker;
  std::int64_t turn;
  TimeNs came, left;
};

// Takes its turn in every step and stays for 3 ms.
class Visitor final : public Agreement {
 public:
  Visitor(const RuleContext& c, std::vector<Visit>& visits)
      : rt_(*c.rt), worker_(c.worker), visits_(visits), turns_(*c.rt, *c.mail, c.worker) {}
  Task<Status> exchange(BucketExchange) override {
    auto turn = co_await turns_.take();
    if (!turn.ok()) co_return turn.status();
    const TimeNs came = rt_.now();
    co_await rt_.sleep_for(3 * kMilli);
    visits_.push_back({worker_, *turn, came, rt_.now()});
    co_return co_await turns_.pass();
  }
  Task<Status> settle(std::vector<Tensor>) override { co_return Status(); }
  void on_lost(int worker) override { turns_.on_lost(worker); }

 private:
  runtime::Runtime& rt_;
  const int worker_;
  std::vector<Visit>& visits_;
  Turns turns_;
};

QuadraticJob visitors(std::vector<Visit>& visits) {
  QuadraticJob job;
  job.workers = 3;
  job.steps = 5;
  job.letters = true;
  job.compute_ns = {kMilli, 2 * kMilli, 3 * kMilli};
  job.make_rule = [&visits](const RuleContext& c) { return std::make_unique<Visitor>(c, visits); };
  return job;
}

TEST(Turns, AreTakenOneAtATimeInTheOrderOfAsking) {
  std::vector<Visit> visits;
  run_well(visitors(visits));
  ASSERT_EQ(visits.size(), 15U);
  for (std::size_t i = 0; i < visits.size(); ++i) {
    EXPECT_EQ(visits[i].turn, static_cast<std::int64_t>(i));
    if (i == 0) continue;
    EXPECT_GE(visits[i].came, visits[i - 1].left);
    if (i < 12) {
      EXPECT_EQ(visits[i].worker, static_cast<int>(i % 3)) << "everybody is back before its turn comes again";
    }
  }
}

TEST(Turns, OfALostWorkerPassOn) {
  std::vector<Visit> visits;
  QuadraticJob job = visitors(visits);
  job.expendable = true;
  runtime::FaultSpec kill;
  kill.runtime = 1;
  kill.at = 6 * kMilli;  // it holds its first turn, from about 4 ms on
  job.world.faults = {kill};
  const QuadraticRun r = testing::run(job);
  EXPECT_TRUE(r.workers[1].dead);
  EXPECT_EQ(r.workers[0].trace.size(), 5U) << r.workers[0].status.to_string();
  EXPECT_EQ(r.workers[2].trace.size(), 5U) << r.workers[2].status.to_string();
  ASSERT_EQ(visits.size(), 10U);
  EXPECT_EQ(visits[1].turn, 2);
}

TEST(Turns, EndWithTheVerdictWhenTheirKeeperIsLost) {
  std::vector<Visit> visits;
  QuadraticJob job = visitors(visits);
  job.expendable = true;
  runtime::FaultSpec kill;
  kill.runtime = 0;
  kill.at = 6 * kMilli;
  job.world.faults = {kill};
  const QuadraticRun r = testing::run(job);
  for (const std::size_t w : {1U, 2U}) EXPECT_EQ(r.workers[w].status.code(), Code::kPeerLost);
}

struct SumAnswer {
  std::int64_t sum = 0;
  static constexpr auto kFields = comm::head_fields(comm::at<16>(&SumAnswer::sum));
};
struct AddendHead {
  static constexpr std::uint16_t kKind = comm::kLetterRuleFirst + 4;
  std::int64_t addend = 0;
  static constexpr auto kFields = comm::head_fields(comm::at<16>(&AddendHead::addend));
  using Answer = SumAnswer;
};

// Meets the others at the end of every step and says its number.
class Guest final : public Agreement {
 public:
  Guest(const RuleContext& c, std::vector<std::vector<std::int64_t>>& sums)
      : worker_(c.worker),
        sums_(sums),
        meeting_(*c.rt, *c.mail, c.worker, c.num_workers, [](std::span<const AddendHead> said) {
          SumAnswer all;
          for (const AddendHead& head : said) all.sum += head.addend;
          return all;
        }) {}
  Task<Status> exchange(BucketExchange) override { co_return Status(); }
  Task<Status> end_step(StepInfo step) override {
    const AddendHead mine{(step.step + 1) * (worker_ + 1)};
    const auto met = co_await meeting_.meet(mine);
    if (met.ok()) sums_[static_cast<std::size_t>(worker_)].push_back(met->sum);
    co_return met.status();
  }
  Task<Status> settle(std::vector<Tensor>) override { co_return Status(); }
  void on_lost(int worker) override { meeting_.on_lost(worker); }

 private:
  const int worker_;
  std::vector<std::vector<std::int64_t>>& sums_;
  Meeting<AddendHead> meeting_;
};

QuadraticJob guests(std::vector<std::vector<std::int64_t>>& sums) {
  sums.resize(3);
  QuadraticJob job;
  job.workers = 3;
  job.steps = 4;
  job.letters = true;
  job.compute_ns = {kMilli, 2 * kMilli, 10 * kMilli};
  job.make_rule = [&sums](const RuleContext& c) { return std::make_unique<Guest>(c, sums); };
  return job;
}

TEST(Meeting, EverybodyWaitsForTheLastAndGetsTheSameAnswer) {
  std::vector<std::vector<std::int64_t>> sums;
  const QuadraticRun r = run_well(guests(sums));
  for (const auto& of_worker : sums) EXPECT_THAT(of_worker, ElementsAre(6, 12, 18, 24));
  EXPECT_GT(r.workers[0].ended[0] - r.workers[0].began, 10 * kMilli);
}

TEST(Meeting, IsAsGoodOnAPhantomRuntime) {
  std::vector<std::vector<std::int64_t>> sums;
  QuadraticJob job = guests(sums);
  job.world.phantom = true;
  run_well(job);
  for (const auto& of_worker : sums) EXPECT_THAT(of_worker, ElementsAre(6, 12, 18, 24));
}

TEST(Meeting, ALostWorkerIsNotWaitedFor) {
  std::vector<std::vector<std::int64_t>> sums;
  QuadraticJob job = guests(sums);
  job.expendable = true;
  runtime::FaultSpec kill;
  kill.runtime = 2;
  kill.at = 15 * kMilli;  // in its second step
  job.world.faults = {kill};
  const QuadraticRun r = testing::run(job);
  EXPECT_THAT(sums[0], ElementsAre(6, 6, 9, 12)) << r.workers[0].status.to_string();
  EXPECT_EQ(sums[1], sums[0]) << r.workers[1].status.to_string();
}

}  // namespace
}  // namespace trireme::agree
