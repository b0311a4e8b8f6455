// A rank that dies, falls silent or makes the wrong call: every other rank gets one error that names it, the
// operation and the reason, in time; the same seed gives the same trace.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <set>

#include "tests/comm/ranks.h"
#include "tests/sanitizer.h"
#include "trireme/base/rng.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::comm {
namespace {

using Kind = runtime::FaultSpec::Kind;

constexpr std::uint32_t kSteps = 4;

struct Outcome {
  Status status;  // of the first call that failed
  TimeNs at = 0;  // when it did
  Status later;   // of a call after that
  Status left;    // of leave()
};

// Calls of all kinds; the n-th call of a rank is fault point {"collective", n}.
runtime::Task<Status> one_step(Group& group, std::uint32_t step) {
  const auto call = [&](std::uint16_t slot, const char* algorithm) {
    Call c;
    c.step = step;
    c.slot = slot;
    c.label = fmt::format("bucket {}", slot);
    c.algorithm = algorithm;
    return c;
  };
  const Tensor data = testing::tensor_of(std::vector<float>(50, 1));
  TR_CO_RETURN_IF_ERROR(co_await group.allreduce(call(0, "ring"), data));
  TR_CO_RETURN_IF_ERROR(co_await group.allreduce(call(1, "fixed-tree"), data));
  TR_CO_RETURN_IF_ERROR(co_await group.barrier(call(2, "")));
  TR_CO_RETURN_IF_ERROR(co_await group.broadcast(call(3, ""), data));
  TR_CO_RETURN_IF_ERROR(co_await group.allreduce(call(4, "rabenseifner"), data));
  const std::int64_t world = group.world();
  const Tensor all = testing::tensor_of(std::vector<float>(static_cast<std::size_t>(50 * world), 1));
  TR_CO_RETURN_IF_ERROR(co_await group.allgather(call(5, ""), data, all));
  TR_CO_RETURN_IF_ERROR(co_await group.reduce_scatter(call(6, ""), all, data));
  co_return co_await group.all_to_all(call(7, ""), all, all);
}
constexpr std::uint64_t kCallsPerStep = 8;

runtime::Task<void> job(runtime::Runtime& rt, Group& group, Outcome& out) {
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    const cost::OpCost work{1e6, 1e6};
    co_await rt.compute(work, nullptr);
    out.status = co_await one_step(group, step);
    out.at = rt.now();
    if (!out.status.ok()) break;
  }
  Call later;
  later.label = "later";
  if (!out.status.ok()) out.later = co_await group.barrier(later);
  out.left = co_await group.leave();
  if (!out.status.ok() || out.left.ok()) co_return;
  // A fault in the last call: this rank's part of it was done, and it hears while it leaves.
  out.status = out.left;
  out.at = rt.now();
  out.later = co_await group.barrier(later);
}

struct Faulty {
  int world;
  int culprit;
  Kind kind;
  std::uint64_t index;
  std::string text() const {
    return fmt::format("world {}, fault {} at call {} of rank {}", world, static_cast<int>(kind), index,
                       culprit);
  }
};

Faulty draw(std::uint64_t seed) {
  Philox rng(seed, 7);
  Faulty f;
  f.world = 3 + static_cast<int>(rng.next_below(4));
  f.culprit = static_cast<int>(rng.next_below(static_cast<std::uint32_t>(f.world)));
  const Kind kinds[] = {Kind::kKill, Kind::kPause, Kind::kMiscall, Kind::kError};
  f.kind = kinds[rng.next_below(4)];
  f.index = 1 + rng.next_below(kSteps * kCallsPerStep);
  return f;
}

testing::VirtualResult run_faulty(const Faulty& f, std::uint64_t seed, std::vector<Outcome>& out) {
  out.assign(static_cast<std::size_t>(f.world), {});
  testing::RankOptions options;
  options.world = f.world;
  runtime::WorldSpec spec;
  spec.seed = seed;
  spec.latency_jitter = 0.5;
  spec.faults = {{.kind = f.kind,
                  .runtime = f.culprit,
                  .at = -1,
                  .site = "collective",
                  .index = f.index,
                  .duration = kForever,
                  .factor = 1}};
  return testing::run_virtual(options, spec, [&out](runtime::Runtime& rt, Group& group) {
    return job(rt, group, out[static_cast<std::size_t>(group.rank())]);
  });
}

// When, at the latest, an innocent rank knows. The job itself takes milliseconds.
TimeNs latest(const Faulty& f) {
  const net::MembershipOptions m;
  return f.kind == Kind::kPause ? m.deadline + m.heartbeat + 100 * kMilli : 1 * kSecond;
}

void check_outcomes(const Faulty& f, const std::vector<Outcome>& out) {
  std::set<std::string> operations, reasons;
  for (int r = 0; r < f.world; ++r) {
    const Outcome& o = out[static_cast<std::size_t>(r)];
    if (r == f.culprit && (f.kind == Kind::kKill || f.kind == Kind::kPause)) continue;
    ASSERT_FALSE(o.status.ok()) << "rank " << r << " noticed nothing";
    EXPECT_EQ(o.status.context().peer, f.culprit) << "rank " << r << ": " << o.status.to_string();
    EXPECT_LE(o.at, latest(f)) << "rank " << r << ": " << o.status.to_string();
    EXPECT_FALSE(o.status.context().operation.empty()) << o.status.to_string();
    EXPECT_EQ(o.later.message(), o.status.message()) << "rank " << r;
    EXPECT_EQ(o.left.message(), o.status.message()) << "rank " << r;
    operations.insert(o.status.context().operation);
    reasons.insert(o.status.context().reason);
    const bool lost = f.kind == Kind::kKill || f.kind == Kind::kPause;
    const Code code = lost ? Code::kPeerLost : f.kind == Kind::kMiscall ? Code::kMismatch : Code::kInternal;
    EXPECT_EQ(o.status.code(), code) << o.status.to_string();
    if (f.kind == Kind::kError) {
      EXPECT_EQ(o.status.context().reason, "injected failure");
    }
  }
  // One error for all, also without the coordinator.
  EXPECT_EQ(operations.size(), 1U) << fmt::format("{}", fmt::join(operations, " | "));
  EXPECT_EQ(reasons.size(), 1U) << fmt::format("{}", fmt::join(reasons, " | "));
}

TEST(Faults, OfAThousandSeedsAreToldToEveryRankInTime) {
  for (std::uint64_t seed = 0; seed < num_seeds(1000); ++seed) {
    const Faulty f = draw(seed);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, f.text()));
    std::vector<Outcome> out;
    const auto result = run_faulty(f, seed, out);
    if (f.kind != Kind::kPause) testing::expect_finished(result);
    check_outcomes(f, out);
    if (seed % 10 == 0) {
      std::vector<Outcome> again;
      EXPECT_EQ(run_faulty(f, seed, again).report.trace_hash, result.report.trace_hash);
    }
    if (HasFailure()) break;
  }
}

TEST(Faults, DifferentSeedsGiveDifferentTraces) {
  std::vector<Outcome> out;
  const Faulty f{4, 1, Kind::kError, 20};
  EXPECT_NE(run_faulty(f, 1, out).report.trace_hash, run_faulty(f, 2, out).report.trace_hash);
}

TEST(Faults, AMiscallNamesTheOperationAndBothCalls) {
  std::vector<Outcome> out;
  run_faulty({4, 2, Kind::kMiscall, 1}, 3, out);
  EXPECT_EQ(out[0].status.context().operation, "allreduce bucket 0, step 0");
  EXPECT_EQ(
      out[0].status.context().reason,
      "mismatched call: rank 2 called broadcast of 50 f32 from root 0 (ring), rank 0 called allreduce of 50 "
      "f32 (sum, ring)");
}

// In kinds where a rank only sends it may be gone on when its message is found to be of another call. It
// still knows how it made that call.
TEST(Faults, AMiscallOfAOneWayKindIsToldToEveryRankInTime) {
  for (const bool gather : {false, true})
    for (int culprit = 0; culprit < 5; ++culprit) {
      SCOPED_TRACE(fmt::format("{}, rank {}", gather ? "gather" : "reduce", culprit));
      std::vector<Outcome> out(5);
      testing::RankOptions options;
      options.world = 5;
      runtime::WorldSpec spec;
      spec.faults = {{.kind = Kind::kMiscall,
                      .runtime = culprit,
                      .at = -1,
                      .site = "collective",
                      .index = 1,
                      .duration = kForever,
                      .factor = 1}};
      const auto body = [&](runtime::Runtime& rt, Group& group) -> runtime::Task<void> {
        Outcome& o = out[static_cast<std::size_t>(group.rank())];
        Call call;
        call.label = "one way";
        const Tensor data = testing::tensor_of(std::vector<float>(10, 1));
        const Tensor all = testing::tensor_of(std::vector<float>(50, 1));
        const Tensor root_only = group.rank() == 0 ? all : Tensor();
        if (gather) {
          o.status = co_await group.gather(call, data, root_only);
        } else {
          o.status = co_await group.reduce(call, data);
        }
        o.left = co_await group.leave();
        o.at = rt.now();
      };
      testing::expect_finished(testing::run_virtual(options, spec, body));
      for (const Outcome& o : out) {
        EXPECT_EQ(o.left.code(), Code::kMismatch) << o.left.to_string();
        EXPECT_LE(o.at, 1 * kSecond);
        EXPECT_EQ(o.left.context().peer, culprit) << o.left.to_string();
        EXPECT_EQ(o.left.context().reason, out[0].left.context().reason);
      }
    }
}

TEST(Faults, ARankThatFailsByItselfIsNamedOnThreadsToo) {
  std::vector<Outcome> out(3);
  testing::RankOptions options;
  options.world = 3;
  testing::run_on_threads(options, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
    Outcome& o = out[static_cast<std::size_t>(group.rank())];
    o.status = co_await one_step(group, 0);
    // The others may still be in step 0 when rank 1 has done its part.
    if (group.rank() == 1) {
      EXPECT_TRUE(o.status.ok()) << o.status.to_string();
      group.fail("write of checkpoint 3", "disk full");
    }
    o.status = co_await one_step(group, 1);
    o.left = co_await group.leave();
  });
  for (const Outcome& o : out) {
    EXPECT_EQ(o.status.context().peer, 1) << o.status.to_string();
    EXPECT_EQ(o.status.context().operation, "write of checkpoint 3");
    EXPECT_EQ(o.status.context().reason, "disk full");
    EXPECT_EQ(o.left.message(), o.status.message());
  }
}

TEST(Faults, ARealMismatchOfSizesIsTheErrorOfAllOnThreads) {
  std::vector<Status> out(4);
  testing::RankOptions options;
  options.world = 4;
  testing::run_on_threads(options, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
    Call call;
    call.label = "bucket 0";
    call.algorithm = "ring";
    const std::size_t count = group.rank() == 2 ? 44 : 40;
    const Tensor data = testing::tensor_of(std::vector<float>(count, 1));
    out[static_cast<std::size_t>(group.rank())] = co_await group.allreduce(call, data);
    (void)co_await group.leave();
  });
  for (const Status& s : out) {
    EXPECT_EQ(s.code(), Code::kMismatch) << s.to_string();
    EXPECT_EQ(s.context().peer, 2) << s.to_string();
    EXPECT_EQ(s.context().operation, "allreduce bucket 0, step 0");
  }
}

TEST(Faults, ARankThatEndsWithoutLeavingIsLost) {
  std::vector<Status> out(3);
  testing::RankOptions options;
  options.world = 3;
  testing::run_on_threads(options, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
    if (group.rank() == 2) co_return;  // its group, and with it the connection, goes
    out[static_cast<std::size_t>(group.rank())] = co_await one_step(group, 0);
    (void)co_await group.leave();
  });
  for (const int r : {0, 1}) {
    const Status& s = out[static_cast<std::size_t>(r)];
    EXPECT_EQ(s.code(), Code::kPeerLost) << s.to_string();
    EXPECT_EQ(s.context().peer, 2) << s.to_string();
    EXPECT_EQ(s.context().reason, "connection closed");
  }
}

}  // namespace
}  // namespace trireme::comm
