// Communication that hides behind computation changes when things happen, never what comes out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "tests/train/small_jobs.h"
#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/job/job_parts.h"
#include "trireme/prepare/prepare.h"

namespace trireme::train {
namespace {

using runtime::Task;
using ::testing::Each;
using testing::hash_in_process;
using testing::hash_virtual;
using testing::tiny_cases;
using testing::tiny_job;
using testing::tiny_pictures;
using testing::TinyCase;

constexpr const char* kOverlaps[] = {"none", "buckets", "full"};

TEST(Overlap, OfAnyKindGivesTheSameBitsForAnyNumberOfWorkers) {
  for (TinyCase& c : tiny_cases()) {
    c.job.parallel.workers = 1;
    const std::string expected = hash_virtual(c.job, c.data);
    ASSERT_EQ(expected.size(), 64U) << c.name;
    for (const char* overlap : kOverlaps)
      for (int workers = 2; workers <= 4; ++workers) {
        c.job.parallel.overlap = overlap;
        c.job.parallel.workers = workers;
        EXPECT_EQ(hash_virtual(c.job, c.data), expected) << c.name << ", " << overlap << ", " << workers;
      }
  }
}

TEST(Overlap, GivesTheSameBitsOnJitteryLinksAndOnThreads) {
  const auto data = tiny_pictures(40, 10, 8);
  job::Job job = tiny_job();
  job.parallel.workers = 3;
  job.parallel.overlap = "none";
  const std::string expected = hash_virtual(job, data);
  job.parallel.overlap = "full";
  for (std::uint64_t seed = 2; seed < 8; ++seed) EXPECT_EQ(hash_virtual(job, data, seed), expected) << seed;
  for (const char* overlap : kOverlaps) {
    job.parallel.overlap = overlap;
    EXPECT_EQ(hash_in_process(job, data), expected) << overlap;
  }
}

Task<void> run_rank(RankContext context, Result<record::Summary>& out) {
  out = co_await train_rank(std::move(context));
}

// Ranks as threads, joined by a transport between processes.
std::vector<std::string> hashes_over(const char* transport, const job::Job& job,
                                     std::shared_ptr<const data::Dataset> data) {
  std::string dir = ::testing::TempDir() + "/overlap-XXXXXX";
  EXPECT_NE(mkdtemp(dir.data()), nullptr);
  const auto world = static_cast<std::size_t>(job.parallel.workers);
  std::vector<std::string> hashes(world);
  std::vector<std::function<void()>> bodies;
  for (std::size_t rank = 0; rank < world; ++rank)
    bodies.push_back([&, rank] {
      runtime::RealOptions options;
      options.compute_threads = 1;
      options.spin_ns = 0;
      const auto rt = runtime::make_real_runtime(options);
      RankContext context;
      context.rt = rt.get();
      context.job = job;
      context.transport = transport;
      context.connect.rank = static_cast<int>(rank);
      context.connect.world = static_cast<int>(world);
      context.connect.rendezvous = dir;
      context.data = data;
      Result<record::Summary> result = Status(Code::kInternal, "[test] not started");
      rt->run(run_rank(std::move(context), result));
      EXPECT_TRUE(result.ok()) << result.status().to_string();
      if (result.ok()) hashes[rank] = result->parameters_sha256;
    });
  runtime::run_in_threads(std::move(bodies));
  std::filesystem::remove_all(dir);
  return hashes;
}

TEST(Overlap, GivesTheSameBitsThroughSharedMemoryAndTcp) {
  const auto data = tiny_pictures(40, 10, 8);
  job::Job job = tiny_job();
  const std::string expected = hash_virtual(job, data);
  job.parallel.workers = 2;
  for (const char* transport : {"shm", "tcp"})
    for (const char* overlap : kOverlaps) {
      job.parallel.overlap = overlap;
      EXPECT_THAT(hashes_over(transport, job, data), Each(expected)) << transport << ", " << overlap;
    }
}

// Seven layers and two workers on a link that takes about twice as long as they compute.
job::Job slow_link_job(const char* overlap) {
  job::Job job = tiny_job();
  Json layers = Json::array();
  for (int i = 0; i < 6; ++i) layers.push_back({{"kind", "dense"}, {"out", 256}, {"activation", "relu"}});
  layers.push_back({{"kind", "classifier"}});
  job.model.layers = std::move(layers);
  job.train.steps = 6;
  job.train.eval_steps = 100;
  job.train.checkpoint_steps = 100;
  job.train.logical_shards = 2;
  job.parallel.workers = 2;
  job.parallel.bucket_bytes = 1 << 12;  // a bucket per layer
  job.parallel.overlap = overlap;
  return job;
}

start::SimulateOptions on_slow_link(const char* overlap) {
  start::SimulateOptions options;
  options.job = slow_link_job(overlap);
  options.machine.flops_per_second_per_core = 2e8;
  options.machine.op_overhead_ns = 0;
  options.link.bytes_per_second = 12.5e6;  // 100 Mbit/s
  return options;
}

TEST(Overlap, ShortensStepsAsThePlanPredicts) {
  const auto data = tiny_pictures(40, 4);
  double last = 0;
  for (const char* overlap : kOverlaps) {
    // The first steps begin when the ranks have prepared, one after the other.
    double ended[2], predicted = 0;
    for (const int more : {0, 1}) {
      start::SimulateOptions options = on_slow_link(overlap);
      options.job.train.steps = more == 0 ? 4 : 12;
      const start::SimulateReport report = start::simulate_training(options, data);
      ASSERT_TRUE(report.ranks[0].ok()) << report.ranks[0].status().to_string();
      ended[more] = to_seconds(report.ended_at[0]);
      predicted = report.ranks[0]->predicted_step_seconds;
    }
    const double step = (ended[1] - ended[0]) / 8;
    EXPECT_NEAR(step, predicted, 0.1 * predicted) << overlap;
    if (last > 0) {
      EXPECT_LT(step, 0.95 * last) << overlap;
    }
    last = step;
  }
}

struct Span {
  double begin = 0, end = 0;
};

// Spans of rank 0 by name, in order of time, from trace.json.
std::map<std::string, std::vector<Span>> spans_of(const Json& trace) {
  std::map<std::string, std::vector<Span>> spans;
  for (const Json& e : trace["traceEvents"]) {
    if (e.value("ph", "") != "X" || e.value("pid", -1) != 0) continue;
    const double begin = e["ts"].get<double>();
    spans[e["name"].get<std::string>()].push_back({begin, begin + e["dur"].get<double>()});
  }
  for (auto& [name, list] : spans)
    std::sort(list.begin(), list.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  return spans;
}

// The trace of the first two steps.
Json traced_run(const char* overlap) {
  job::Job job = slow_link_job(overlap);
  job.train.trace_steps = 2;
  const start::SimulateOptions options = on_slow_link(overlap);
  testing::VirtualRuns runs(options.machine, options.link);
  const testing::RunOutcome outcome = runs.train(job, tiny_pictures(40, 4));
  EXPECT_TRUE(outcome.ranks[0].ok()) << outcome.ranks[0].status().to_string();
  Result<Json> trace = parse_json(runs.read("run/trace.json"), "trace.json");
  EXPECT_TRUE(trace.ok()) << trace.status().to_string();
  return trace.ok() ? *trace : Json{{"traceEvents", Json::array()}};
}

TEST(Overlap, TheFirstLayerOfTheNextStepStartsBeforeTheLastBucketOfTheStepArrives) {
  for (const char* overlap : kOverlaps) {
    const auto spans = spans_of(traced_run(overlap));
    // Nodes are told of the last step traced, the second one; exchanges of both.
    double first_layer = 1e18, arrived = 0;
    for (const auto& [name, list] : spans) {
      if (name.find("dense1") != std::string::npos) first_layer = std::min(first_layer, list.front().begin);
      if (!name.starts_with("exchange ")) continue;
      ASSERT_EQ(list.size(), 2U) << name;
      arrived = std::max(arrived, list.front().end);
    }
    ASSERT_LT(first_layer, 1e18);
    ASSERT_GT(arrived, 0);
    EXPECT_EQ(first_layer < arrived, std::string(overlap) == "full") << overlap;
  }
}

TEST(Overlap, TheBucketThatIsNeededFirstOvertakesOlderOnes) {
  const auto spans = spans_of(traced_run("full"));
  // Bucket 6 holds the first layer: final last, needed first.
  const Span& first_layer = spans.at("exchange 6").back();
  const Span& third_layer = spans.at("exchange 4").back();
  EXPECT_LT(first_layer.end, third_layer.end) << "though it was final later";
}

TEST(Overlap, JobsThatMustKnowAllGradientsKeepTheBarrier) {
  const auto data = tiny_pictures(40, 4);
  job::Job job = tiny_job();
  job.parallel.workers = 2;
  const auto planned = [&](const job::Job& j) {
    prepare::PrepareOptions options;
    options.replicas = static_cast<int>(j.parallel.workers);
    const auto prepared = prepare::prepare(j, *job::model_input(j, *data), options);
    EXPECT_TRUE(prepared.ok()) << prepared.status().to_string();
    return (*prepared)->plan.overlap;
  };
  EXPECT_EQ(planned(job), plan::Overlap::kFull);
  job::Job clipped = job;
  clipped.train.optimizer.clip_norm = 1;
  EXPECT_EQ(planned(clipped), plan::Overlap::kBuckets);
  job::Job alone = job;
  alone.parallel.workers = 1;
  EXPECT_EQ(planned(alone), plan::Overlap::kBuckets);
  job::Job wished = job;
  wished.parallel.overlap = "none";
  EXPECT_EQ(planned(wished), plan::Overlap::kNone);
}

TEST(Overlap, ALostRankEndsTheOthersWhoseGatesAreClosed) {
  for (std::uint64_t call = 8; call < 24; ++call) {
    start::SimulateOptions options = on_slow_link("full");
    runtime::FaultSpec kill;
    kill.runtime = 1;
    kill.site = "collective";
    kill.index = call;
    options.faults = {kill};
    const start::SimulateReport report = start::simulate_training(options, tiny_pictures(40, 4));
    EXPECT_TRUE(report.world.finished) << report.world.stuck;
    const auto& result = report.ranks[0];
    ASSERT_FALSE(result.ok()) << "call " << call;
    EXPECT_NE(result.status().message().find("rank 1"), std::string::npos) << result.status().message();
  }
}

}  // namespace
}  // namespace trireme::train
