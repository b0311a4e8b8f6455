// Membership on the virtual world: kill, pause, mute, mis-call and plain slowness from many seeds. Times are
// virtual.
#include "trireme/net/membership.h"

#include <gtest/gtest.h>

#include "tests/sanitizer.h"
#include "trireme/base/hash.h"
#include "trireme/base/rng.h"
#include "trireme/net/factory.h"
#include "trireme/runtime/sync.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::net {
namespace {

using runtime::FaultSpec;
using runtime::Runtime;
using runtime::Task;

// What one rank lived through.
struct Outcome {
  Status verdict;
  TimeNs at = -1;  // of on_failure
  int num_failures = 0;
  Status left;
  std::uint32_t steps = 0;
};

struct Plan {
  int world = 4;
  std::uint32_t num_steps = 1000;
  std::uint64_t seed = 1;
  std::vector<FaultSpec> faults;
  TimeNs compute_ns = 30 * kMilli;
  int num_rounds = 0;  // of the ring; 0: world - 1
  int slow_rank = -1;  // computes for `slow_ns` in step 3
  TimeNs slow_ns = 0;
  int idle_rank = -1;          // never calls step 3
  int wrong_step_rank = -1;    // calls another slot in step 3
  std::uint64_t bytes = 1024;  // of a message
  cost::LinkModel link;
  MembershipOptions options;
  TimeNs limit = 60 * kSecond;
};

struct Shot final : Completion {
  explicit Shot(Runtime& rt) : done(rt) {}
  void on_complete(std::uint64_t, const Status& status) override { done.set(status); }
  runtime::OneShot<Status> done;
};

// A ring of world - 1 rounds per step, as a group would do it: nobody ends a step before everybody began it.
class Rank {
 public:
  Rank(Runtime& rt, const Plan& plan, int rank, Outcome& outcome)
      : rt_(rt), plan_(plan), rank_(rank), outcome_(outcome) {}

  Task<void> run() {
    ConnectOptions options;
    options.rank = rank_;
    options.world = plan_.world;
    auto connected = co_await connect_transport(rt_, "inproc", options);
    TR_CHECK(connected.ok(), "{}", connected.status().to_string());
    transport_ = std::move(connected).value();
    membership_ = make_membership(rt_, *transport_, plan_.options);
    membership_->start([this](const Status& verdict) {
      ++outcome_.num_failures;
      outcome_.verdict = verdict;
      outcome_.at = rt_.now();
      transport_->poison(verdict, {});
    });
    Status status;
    for (std::uint32_t step = 0; step < plan_.num_steps && status.ok(); ++step) {
      co_await compute(step);
      status = co_await exchange(step);
      if (status.ok()) ++outcome_.steps;
    }
    if (!status.ok() && membership_->verdict().ok()) {
      membership_->report(status.context().peer.value_or(rank_), status.code(), operation_,
                          status.context().reason);
      while (membership_->verdict().ok()) co_await rt_.sleep_for(kMilli);
    }
    outcome_.left = co_await membership_->leave(rt_.now() + 5 * kSecond);
    membership_.reset();
    transport_.reset();
  }

 private:
  Task<void> compute(std::uint32_t step) {
    const TimeNs ns = step == 3 && rank_ == plan_.slow_rank ? plan_.slow_ns : plan_.compute_ns;
    const cost::OpCost work{.flops = static_cast<double>(ns), .bytes = 0};
    co_await rt_.compute(work, [](runtime::ComputeContext&) {});
    if (step == 3 && rank_ == plan_.idle_rank) {
      while (membership_->verdict().ok()) co_await rt_.sleep_for(10 * kMilli);
    }
  }

  Task<Status> exchange(std::uint32_t step) {
    const bool miscall = rt_.fault_point("collective", step) == runtime::FaultAction::kMiscall;
    const bool wrong = step == 3 && rank_ == plan_.wrong_step_rank;
    const int next = (rank_ + 1) % plan_.world, previous = (rank_ + plan_.world - 1) % plan_.world;
    const Fingerprint fp{.kind = static_cast<std::uint8_t>(miscall ? 7 : 1), .count = 256};
    operation_ =
        fmt::format("{} bucket {}, step {}", miscall ? "broadcast" : "allreduce", wrong ? 9 : 2, step);
    Status status;
    const int num_rounds = plan_.num_rounds > 0 ? plan_.num_rounds : plan_.world - 1;
    for (int round = 0; round < num_rounds && status.ok(); ++round) {
      const Identity id{.epoch = 1,
                        .group = 0,
                        .slot = static_cast<std::uint16_t>(wrong ? 9 : 2),
                        .step = step,
                        .part = static_cast<std::uint32_t>(round)};
      Shot sent(rt_), received(rt_);
      transport_->send(next, id, fp, {nullptr, plan_.bytes}, &sent, 0);
      transport_->recv(previous, id, fp, {nullptr, plan_.bytes}, &received, 1);
      membership_->set_waiting({previous, operation_});
      co_await received.done.wait_until(kForever);
      co_await sent.done.wait_until(kForever);
      membership_->note_progress();
      status = received.done.value().ok() ? sent.done.value() : received.done.value();
    }
    membership_->set_waiting({});
    co_return status;
  }

  Runtime& rt_;
  const Plan& plan_;
  const int rank_;
  Outcome& outcome_;
  std::string operation_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Membership> membership_;
};

struct Result4 {
  std::vector<Outcome> ranks;
  runtime::WorldReport report;
};

Result4 play(const Plan& plan) {
  cost::MachineModel machine;
  machine.flops_per_second_per_core = 1e9;  // one flop is one nanosecond
  machine.op_overhead_ns = 0;
  runtime::WorldSpec spec;
  spec.topology = cost::Topology::single_switch(plan.world, machine, plan.link);
  spec.phantom = true;
  spec.seed = plan.seed;
  spec.faults = plan.faults;
  spec.latency_jitter = 0.5;
  auto world = make_virtual_world(spec);
  Result4 result;
  result.ranks.resize(static_cast<std::size_t>(plan.world));
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int r = 0; r < plan.world; ++r) {
    Runtime& rt = world->add_runtime(r, fmt::format("rank {}", r));
    ranks.push_back(std::make_unique<Rank>(rt, plan, r, result.ranks[static_cast<std::size_t>(r)]));
    world->start(rt, ranks.back()->run());
  }
  result.report = world->run(plan.limit);
  ranks.clear();  // mailboxes of ranks that did not end go before their world
  return result;
}

constexpr std::uint64_t kNumSeeds = num_seeds(1000);
constexpr TimeNs kLatency = 2 * 40 * kMicro + kMilli;  // there and back with jitter, and queueing

void expect_verdict(const Result4& result, int culprit, Code code, TimeNs from, TimeNs until,
                    const std::string& what) {
  for (int r = 0; r < static_cast<int>(result.ranks.size()); ++r) {
    const Outcome& o = result.ranks[static_cast<std::size_t>(r)];
    if (r == culprit) continue;
    ASSERT_EQ(o.num_failures, 1) << what << ", rank " << r << "; stuck: " << result.report.stuck;
    ASSERT_EQ(o.verdict.code(), code) << what << ", rank " << r << ": " << o.verdict.to_string();
    ASSERT_EQ(o.verdict.context().peer, culprit) << what << ", rank " << r << ": " << o.verdict.to_string();
    ASSERT_EQ(o.verdict.context().rank, r) << what;
    ASSERT_FALSE(o.verdict.context().operation.empty()) << what << ": " << o.verdict.to_string();
    ASSERT_FALSE(o.verdict.context().reason.empty()) << what;
    ASSERT_GE(o.at, from) << what << ", rank " << r << ": " << o.verdict.to_string();
    ASSERT_LE(o.at, until) << what << ", rank " << r << ": " << o.verdict.to_string();
    ASSERT_EQ(o.left.code(), code) << what;
  }
}

Plan random_plan(std::uint64_t seed, FaultSpec::Kind kind) {
  Philox random(seed, hash_text("membership"));
  Plan plan;
  plan.seed = seed;
  plan.world = 3 + static_cast<int>(random.next_below(4));
  FaultSpec fault;
  fault.kind = kind;
  fault.runtime = static_cast<int>(random.next_below(static_cast<std::uint32_t>(plan.world)));
  fault.at = kMilli + static_cast<TimeNs>(random.next_below(1'000'000)) * kMicro;
  plan.faults = {fault};
  return plan;
}

TEST(Membership, KilledRankIsNamedByEverybodyWithinASecondFromAnySeed) {
  for (std::uint64_t seed = 1; seed <= kNumSeeds; ++seed) {
    const Plan plan = random_plan(seed, FaultSpec::Kind::kKill);
    const FaultSpec& f = plan.faults[0];
    expect_verdict(play(plan), f.runtime, Code::kPeerLost, f.at, f.at + kSecond,
                   fmt::format("seed {}", seed));
    if (HasFatalFailure()) return;
  }
}

TEST(Membership, SilentRankIsNamedAtTheDeadlineFromAnySeed) {
  for (std::uint64_t seed = 1; seed <= kNumSeeds; ++seed) {
    for (const auto kind : {FaultSpec::Kind::kPause, FaultSpec::Kind::kMute}) {
      const Plan plan = random_plan(seed, kind);
      const FaultSpec& f = plan.faults[0];
      const Result4 result = play(plan);
      const MembershipOptions& o = plan.options;
      expect_verdict(result, f.runtime, Code::kPeerLost, f.at + o.deadline - o.heartbeat,
                     f.at + o.deadline + o.heartbeat + kLatency, fmt::format("seed {}", seed));
      if (HasFatalFailure()) return;
      if (kind == FaultSpec::Kind::kMute) {
        EXPECT_EQ(result.ranks[static_cast<std::size_t>(f.runtime)].num_failures, 1) << "seed " << seed;
      }
    }
  }
}

TEST(Membership, PausedRankThatComesBackLearnsThatItWasEvicted) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Plan plan = random_plan(seed, FaultSpec::Kind::kPause);
    FaultSpec& f = plan.faults[0];
    f.duration = 5 * kSecond;
    const Result4 result = play(plan);
    ASSERT_TRUE(result.report.finished) << "seed " << seed << ": " << result.report.stuck;
    const MembershipOptions& o = plan.options;
    expect_verdict(result, f.runtime, Code::kPeerLost, f.at + o.deadline - o.heartbeat,
                   f.at + o.deadline + o.heartbeat + kLatency, fmt::format("seed {}", seed));
    if (HasFatalFailure()) return;
    const Outcome& back = result.ranks[static_cast<std::size_t>(f.runtime)];
    ASSERT_EQ(back.num_failures, 1) << "seed " << seed;
    ASSERT_EQ(back.verdict.context().peer, f.runtime) << "seed " << seed << ": " << back.verdict.to_string();
    ASSERT_NE(back.verdict.message().find("evicted"), std::string::npos) << back.verdict.to_string();
    ASSERT_LE(back.at, f.at + f.duration + kSecond) << "seed " << seed;
  }
}

TEST(Membership, ShortPauseIsNoFailure) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Plan plan = random_plan(seed, FaultSpec::Kind::kPause);
    plan.faults[0].duration = kSecond;
    plan.num_steps = 50;
    const Result4 result = play(plan);
    ASSERT_TRUE(result.report.finished) << result.report.stuck;
    for (const Outcome& o : result.ranks)
      ASSERT_TRUE(o.left.ok()) << "seed " << seed << ": " << o.left.to_string();
  }
}

TEST(Membership, MiscallIsBlamedOnTheRankThatMadeItFromAnySeed) {
  for (std::uint64_t seed = 1; seed <= kNumSeeds; ++seed) {
    const Plan plan = random_plan(seed, FaultSpec::Kind::kMiscall);
    const FaultSpec& f = plan.faults[0];
    const Result4 result = play(plan);
    expect_verdict(result, f.runtime, Code::kMismatch, f.at, f.at + kSecond, fmt::format("seed {}", seed));
    if (HasFatalFailure()) return;
    const Outcome& own = result.ranks[static_cast<std::size_t>(f.runtime)];
    ASSERT_EQ(own.num_failures, 1);
    ASSERT_EQ(own.verdict.context().peer, f.runtime);
    ASSERT_NE(own.verdict.context().operation.find("allreduce"), std::string::npos)
        << own.verdict.to_string();
  }
}

TEST(Membership, SameSeedGivesTheSameTrace) {
  for (const auto kind :
       {FaultSpec::Kind::kKill, FaultSpec::Kind::kPause, FaultSpec::Kind::kMute, FaultSpec::Kind::kMiscall})
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      const Plan plan = random_plan(seed, kind);
      EXPECT_EQ(play(plan).report.trace_hash, play(plan).report.trace_hash);
    }
}

TEST(Membership, RankThatNeverCallsIsNamedAtTheDeadline) {
  for (int idle = 0; idle < 4; ++idle) {
    Plan plan;
    plan.idle_rank = idle;
    const Result4 result = play(plan);
    const TimeNs stopped = 4 * plan.compute_ns;
    expect_verdict(result, idle, Code::kDeadline, stopped + plan.options.deadline,
                   stopped + plan.options.deadline + plan.options.heartbeat + kLatency,
                   fmt::format("idle {}", idle));
    EXPECT_EQ(result.ranks[static_cast<std::size_t>(idle)].num_failures, 1);
  }
}

TEST(Membership, RankThatCallsAnotherSlotIsTheOddOneOutOfTheCircle) {
  for (int wrong = 0; wrong < 4; ++wrong) {
    Plan plan;
    plan.wrong_step_rank = wrong;
    const Result4 result = play(plan);
    const TimeNs stopped = 4 * plan.compute_ns;
    expect_verdict(result, wrong, Code::kDeadline, stopped + plan.options.deadline,
                   stopped + plan.options.deadline + plan.options.heartbeat + kLatency,
                   fmt::format("wrong {}", wrong));
    EXPECT_NE(result.ranks[static_cast<std::size_t>((wrong + 1) % 4)].verdict.context().operation.find(
                  "bucket 2, step 3"),
              std::string::npos);
  }
}

TEST(Membership, LongComputeIsNoFailure) {
  for (int slow = 0; slow < 4; ++slow) {
    Plan plan;
    plan.slow_rank = slow;
    plan.slow_ns = 20 * kSecond;
    plan.num_steps = 10;
    const Result4 result = play(plan);
    ASSERT_TRUE(result.report.finished) << result.report.stuck;
    for (const Outcome& o : result.ranks) {
      EXPECT_TRUE(o.left.ok()) << o.left.to_string();
      EXPECT_EQ(o.steps, 10U);
    }
  }
}

// A megabit per second: a message takes `seconds`.
Plan slow_link(double seconds) {
  Plan plan;
  plan.link.bytes_per_second = 125e3;
  plan.bytes = static_cast<std::uint64_t>(seconds * plan.link.bytes_per_second);
  plan.num_steps = 6;
  plan.limit = 1000 * kSecond;
  return plan;
}

TEST(Membership, MessagesThatTakeLongerThanTheDeadlineAreNoFailure) {
  for (const int world : {2, 4}) {
    Plan plan = slow_link(9);
    plan.world = world;
    const Result4 result = play(plan);
    ASSERT_TRUE(result.report.finished) << result.report.stuck;
    EXPECT_GT(result.report.end_time, 6 * 9 * kSecond) << "they do take so long";
    for (const Outcome& o : result.ranks) {
      EXPECT_TRUE(o.left.ok()) << o.left.to_string();
      EXPECT_EQ(o.steps, 6U);
    }
  }
}

// The deadline counts from when the last message has arrived: in step 3 the others' first round takes three
// seconds more.
TEST(Membership, OnASlowLinkWhoIsInAnotherCallOrInNoneIsNamedAtTheDeadline) {
  for (int bad = 0; bad < 4; ++bad)
    for (const bool idle : {false, true}) {
      Plan plan = slow_link(3);
      (idle ? plan.idle_rank : plan.wrong_step_rank) = bad;
      const Result4 result = play(plan);
      const TimeNs stopped = 4 * plan.compute_ns + 9 * 3 * kSecond;
      expect_verdict(result, bad, Code::kDeadline, stopped + plan.options.deadline,
                     stopped + 3 * 3 * kSecond + plan.options.deadline + plan.options.heartbeat + kSecond,
                     fmt::format("{} {}", idle ? "idle" : "wrong", bad));
    }
}

TEST(Membership, OnASlowLinkAKilledRankIsNamedWithinASecondAndASilentOneAtTheDeadline) {
  for (const auto kind : {FaultSpec::Kind::kKill, FaultSpec::Kind::kPause, FaultSpec::Kind::kMute}) {
    Plan plan = slow_link(9);
    plan.faults.resize(1);
    plan.faults[0].kind = kind;
    plan.faults[0].runtime = 2;
    plan.faults[0].at = 15 * kSecond;
    const MembershipOptions& o = plan.options;
    const bool killed = kind == FaultSpec::Kind::kKill;
    expect_verdict(play(plan), 2, Code::kPeerLost, 15 * kSecond + (killed ? 0 : o.deadline - o.heartbeat),
                   15 * kSecond + (killed ? kSecond : o.deadline + o.heartbeat + kLatency),
                   fmt::format("fault {}", static_cast<int>(kind)));
  }
}

TEST(Membership, WorldOfOneSendsNothing) {
  Plan plan;
  plan.world = 1;
  plan.num_steps = 0;
  const Result4 result = play(plan);
  EXPECT_TRUE(result.report.finished);
  EXPECT_EQ(result.report.num_messages, 0U);
  EXPECT_TRUE(result.ranks[0].left.ok());
}

TEST(Membership, ThousandRanksCostAFewMessagesEachPerHeartbeat) {
  Plan plan;
  plan.world = 1024;
  plan.num_steps = 3;
  plan.num_rounds = 1;
  plan.compute_ns = kSecond;
  const Result4 result = play(plan);
  ASSERT_TRUE(result.report.finished) << result.report.stuck.substr(0, 300);
  for (const Outcome& o : result.ranks) ASSERT_TRUE(o.left.ok()) << o.left.to_string();
  const auto heartbeats = static_cast<std::uint64_t>(result.report.end_time / plan.options.heartbeat + 2);
  EXPECT_LE(result.report.num_messages, 1024 * (plan.num_steps + 2 * heartbeats + 4));
}

}  // namespace
}  // namespace trireme::net
