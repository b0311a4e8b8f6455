#include "tests/train/mesh/pipeline_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/train/tiny_jobs.h"
#include "trireme/base/rng.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"

namespace trireme::train::testing {
namespace {

using ::testing::HasSubstr;
using Kind = runtime::FaultSpec::Kind;

constexpr int kStages = 3;
constexpr std::uint64_t kCalls = 50;  // less than any rank of the job makes
constexpr TimeNs kDeadline = 2 * kSecond;

// As others call it, and as it calls itself.
std::string name_of(int rank, bool own) {
  return fmt::format(fmt::runtime(own ? "this rank ({}, data {}, stage {})" : "rank {} (data {}, stage {})"),
                     rank, rank / kStages, rank % kStages);
}

// It does not see its own end.
bool is_gone(const PipelineFault& fault) {
  return fault.ends_the_run && (fault.spec.kind == Kind::kKill || fault.spec.kind == Kind::kPause);
}

}  // namespace

job::Job pipeline_job(const std::string& timetable, std::int64_t zero) {
  job::Job job = tiny_job();
  const Json wide{{"kind", "dense"}, {"out", 8}, {"activation", "relu"}};
  job.model.layers = Json::array({wide, wide, wide, wide, wide, {{"kind", "classifier"}}});
  job.train.steps = 3;
  job.train.batch = 36;
  job.train.logical_shards = 18;
  job.parallel.deadline_ms = kDeadline / kMilli;
  job.parallel.mesh = "data=3,stage=3";
  job.options.set(job::kSegments.name, std::int64_t{6});
  job.options.set(job::kPipeline.name, timetable);
  job.options.set(job::kZero.name, zero);
  if (timetable == "interleaved") job.options.set(job::kVirtualStages.name, std::int64_t{2});
  job::take_workers_of_mesh(job, false);
  return job;
}

HealthyRun healthy_run(const std::string& timetable, std::int64_t zero) {
  HealthyRun healthy{pipeline_job(timetable, zero), tiny_pictures(144, 8), "", 0};
  const start::SimulateReport report = run_with_fault(healthy, {}, 1);
  for (const auto& rank : report.ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
  if (report.ranks[0].ok()) healthy.hash = report.ranks[0]->parameters_sha256;
  healthy.end = report.world.end_time;
  return healthy;
}

// At a call of the rank, or at any moment of the run: while it computes, while messages are on their way.
PipelineFault draw_pipeline_fault(std::uint64_t seed, const HealthyRun& healthy) {
  Philox rng(seed, 25);
  PipelineFault fault;
  constexpr Kind kKinds[] = {Kind::kKill, Kind::kPause,   Kind::kPause,
                             Kind::kSlow, Kind::kMiscall, Kind::kError};
  fault.spec.kind = kKinds[rng.next_below(std::size(kKinds))];
  fault.spec.runtime = static_cast<int>(rng.next_below(kFaultWorld));
  const bool at_call =
      fault.spec.kind == Kind::kMiscall || fault.spec.kind == Kind::kError || rng.next_below(2) == 0;
  if (at_call) {
    fault.spec.site = "collective";
    fault.spec.index = 1 + rng.next_below(kCalls);
  } else {
    fault.spec.at = static_cast<TimeNs>(rng.next_below(static_cast<std::uint64_t>(healthy.end * 8 / 10)));
  }
  fault.allowed = kSecond;
  if (fault.spec.kind == Kind::kPause) {
    fault.ends_the_run = rng.next_below(2) == 0;
    // Silence is told from slowness at the deadline, and noticed within two heartbeats.
    fault.allowed = kDeadline + 500 * kMilli;
    fault.spec.duration = static_cast<TimeNs>(rng.next_below(kDeadline * 8 / 10));
    if (fault.ends_the_run) fault.spec.duration = rng.next_below(2) == 0 ? kForever : 3 * kDeadline;
  }
  if (fault.spec.kind == Kind::kSlow) {
    fault.ends_the_run = false;
    fault.spec.factor = 2 + static_cast<double>(rng.next_below(1000));
  }
  return fault;
}

start::SimulateReport run_with_fault(const HealthyRun& healthy, const PipelineFault& fault,
                                     std::uint64_t seed) {
  start::SimulateOptions options;
  options.job = healthy.job;
  options.seed = seed;
  options.latency_jitter = seed == 1 ? 0 : 0.5;
  if (fault.spec.runtime >= 0) options.faults = {fault.spec};
  options.time_limit = 600 * kSecond;
  return start::simulate_training(options, healthy.data);
}

void expect_one_end(const HealthyRun& healthy, const PipelineFault& fault,
                    const start::SimulateReport& report, std::uint64_t seed) {
  const int culprit = fault.spec.runtime;
  SCOPED_TRACE(fmt::format("seed {}, fault {} of rank {} at {} {}", seed, static_cast<int>(fault.spec.kind),
                           culprit, fault.spec.site.empty() ? "ns" : fault.spec.site,
                           fault.spec.site.empty() ? fault.spec.at : static_cast<TimeNs>(fault.spec.index)));
  std::string said;
  for (int r = 0; r < kFaultWorld; ++r) {
    const auto at = static_cast<std::size_t>(r);
    const auto& rank = report.ranks[at];
    if (!fault.ends_the_run) {
      ASSERT_TRUE(rank.ok()) << rank.status().to_string();
      EXPECT_EQ(rank->parameters_sha256, healthy.hash);
      continue;
    }
    if (r == culprit && is_gone(fault)) continue;
    ASSERT_FALSE(rank.ok()) << "rank " << r << " did not notice";
    ASSERT_GE(report.ended_at[at], 0) << "rank " << r << " never ended";
    EXPECT_LE(report.ended_at[at], healthy.end + fault.allowed) << "rank " << r;
    const ErrorContext context = rank.status().context();
    EXPECT_EQ(context.peer.value_or(-1), culprit) << "rank " << r << ": " << rank.status().message();
    EXPECT_FALSE(context.operation.empty());
    EXPECT_FALSE(context.reason.empty());
    EXPECT_THAT(rank.status().message(), HasSubstr(name_of(culprit, r == culprit)));
    const std::string says = fmt::format("{}: {}", context.operation, context.reason);
    if (said.empty()) said = says;
    EXPECT_EQ(says, said) << "ranks say different things";
  }
}

}  // namespace trireme::train::testing
