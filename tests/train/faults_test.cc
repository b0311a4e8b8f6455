// A rank that is killed, paused or calls the wrong thing at any moment of training: every other rank ends
// with one error that names it, the operation and the reason, in time. In virtual time, from a thousand
// seeds.
#include <gtest/gtest.h>

#include "tests/train/small_jobs.h"
#include "trireme/base/rng.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"

namespace trireme::train {
namespace {

using runtime::FaultSpec;

constexpr int kWorld = 4;
constexpr std::uint64_t kCalls = 2 + 8;  // collectives of the run: the plan, then one per step

struct Injected {
  FaultSpec fault;
  TimeNs allowed;  // from the moment of the fault to the last rank's end
};

Injected draw_fault(std::uint64_t seed, std::uint64_t num_calls = kCalls) {
  Philox rng(seed, 77);
  Injected in;
  constexpr FaultSpec::Kind kKinds[] = {FaultSpec::Kind::kKill, FaultSpec::Kind::kPause,
                                        FaultSpec::Kind::kMiscall, FaultSpec::Kind::kError};
  in.fault.kind = kKinds[rng.next_below(4)];
  in.fault.runtime = static_cast<int>(rng.next_below(kWorld));
  in.fault.site = "collective";
  in.fault.index = 1 + rng.next_below(num_calls);
  // Silence is told from slowness only at the deadline (2 s), noticed within two heartbeats (0.2 s).
  in.allowed = in.fault.kind == FaultSpec::Kind::kPause ? 2 * kSecond + 500 * kMilli : kSecond;
  return in;
}

start::SimulateReport run_with(const Injected& in, std::uint64_t seed, const std::string& mesh = "") {
  start::SimulateOptions options;
  options.job = testing::small_job(mesh.empty() ? "linear" : "mlp", 8, kWorld);
  options.job.train.logical_shards = 0;
  if (!mesh.empty()) {
    options.job.parallel.mesh = mesh;
    options.job.options.set(job::kStyle.name, "tensor");
    job::take_workers_of_mesh(options.job, false);
  }
  options.phantom = true;
  options.seed = seed;
  options.latency_jitter = 0.5;
  options.faults = {in.fault};
  options.time_limit = 60 * kSecond;
  return start::simulate_training(options, nullptr);
}

void expect_one_verdict(const Injected& in, const start::SimulateReport& report, std::uint64_t seed) {
  const int culprit = in.fault.runtime;
  const bool gone = in.fault.kind == FaultSpec::Kind::kKill || in.fault.kind == FaultSpec::Kind::kPause;
  for (int r = 0; r < kWorld; ++r) {
    if (r == culprit && gone) continue;
    const auto& rank = report.ranks[static_cast<std::size_t>(r)];
    ASSERT_FALSE(rank.ok()) << "seed " << seed << ": rank " << r << " did not notice";
    const ErrorContext context = rank.status().context();
    EXPECT_EQ(context.peer.value_or(-1), culprit)
        << "seed " << seed << ", rank " << r << ": " << rank.status().message();
    EXPECT_FALSE(context.operation.empty()) << "seed " << seed;
    EXPECT_FALSE(context.reason.empty()) << "seed " << seed;
    const TimeNs ended = report.ended_at[static_cast<std::size_t>(r)];
    ASSERT_GE(ended, 0) << "seed " << seed << ": rank " << r << " never ended";
    // The whole healthy run takes far less than 100 ms of virtual time, so the fault struck within that.
    EXPECT_LE(ended, in.allowed + 100 * kMilli)
        << "seed " << seed << ", rank " << r << ": " << rank.status().message();
  }
}

TEST(TrainFaults, EveryOtherRankNamesTheCulpritInTimeFromAThousandSeeds) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const Injected in = draw_fault(seed);
    const start::SimulateReport report = run_with(in, seed);
    expect_one_verdict(in, report, seed);
    if (seed % 50 == 0) {
      EXPECT_EQ(run_with(in, seed).world.trace_hash, report.world.trace_hash) << seed;
      EXPECT_NE(run_with(in, seed + 5000).world.trace_hash, report.world.trace_hash) << seed;
    }
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// Most collectives of a rank are exchanges of activations within its replica.
TEST(TrainFaults, OnAMeshEveryOtherRankNamesTheCulpritWithItsPlace) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Injected in = draw_fault(seed, 30);
    const start::SimulateReport report = run_with(in, seed, "data=2,model=2");
    expect_one_verdict(in, report, seed);
    const int culprit = in.fault.runtime;
    const std::string place = fmt::format("rank {} (data {}, model {})", culprit, culprit / 2, culprit % 2);
    const Status& other = report.ranks[culprit == 0 ? 1 : 0].status();
    EXPECT_NE(other.message().find(place), std::string::npos) << "seed " << seed << ": " << other.message();
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(TrainFaults, WithoutAFaultTheSameRunEndsWell) {
  Injected none = draw_fault(1);
  none.fault.index = 100000;  // never reached
  const start::SimulateReport report = run_with(none, 1);
  for (const auto& rank : report.ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
  EXPECT_LT(report.world.end_time, 100 * kMilli);
}

}  // namespace
}  // namespace trireme::train
