// One worker and servers that answer at once: what a rule does, call by call and value by value.
#include <gtest/gtest.h>

#include "tests/agree/fake_servers.h"
#include "tests/agree/quadratic.h"

namespace trireme::agree::testing {
namespace {

using Calls = std::vector<std::string>;

// f(x) = (x - 8)^2 / 2 from 0 with rate 1/2: halves of halves, exact in f32.
QuadraticJob alone(FakeServers& servers, const char* rule, std::int64_t steps) {
  QuadraticJob job;
  job.rule = rule;
  job.workers = 1;
  job.steps = steps;
  job.b = {8};
  job.make_client = [&servers](runtime::Runtime&, comm::Group&) { return servers.client(); };
  return job;
}

Vector first_elems(const std::vector<Vector>& trace) {
  Vector values;
  for (const Vector& v : trace) values.push_back(v.at(0));
  return values;
}

TEST(ServerRuleAlone, OneWorkerOverServersIsSgdToTheBit) {
  for (const char* rule : {"bsp-server", "ssp", "staleness-aware", "soft", "late", "downpour"}) {
    FakeServers servers;
    QuadraticJob job = alone(servers, rule, 9);
    job.learning_rate = 0.3F;
    job.bucket_elems = {3, 2};
    job.start = {1, 2, 3, 4, 5};
    job.options.own.set("staleness", 0);
    const QuadraticRun result = run_well(job);
    Vector x = job.start;
    for (int step = 0; step < 9; ++step)
      for (float& v : x) v -= 0.3F * (v - 8.0F);
    ASSERT_EQ(result.workers[0].settled.size(), 1U) << rule;
    EXPECT_EQ(result.workers[0].settled[0], x) << rule;
    EXPECT_EQ(result.workers[0].report.exchanges, 9) << rule;
  }
}

TEST(ServerRuleAlone, APullFollowsThePushOfItsBucketAndAMeetingIsOutsideTheClocks) {
  FakeServers servers;
  QuadraticJob job = alone(servers, "bsp-server", 2);
  job.bucket_elems = {1, 1};
  job.settle_every = 1;
  run_well(job);
  const Calls expected = {"pull 0@0", "pull 1@0",                                    //
                          "push 0@0", "pull 0@1", "push 1@0", "pull 1@1", "tick 0",  //
                          "finish",   "pull 0@1", "pull 1@1", "rejoin 1",            //
                          "pull 0@1", "pull 1@1",                                    //
                          "push 0@1", "pull 0@2", "push 1@1", "pull 1@2", "tick 1",  //
                          "finish",   "pull 0@2", "pull 1@2"};
  EXPECT_EQ(servers.calls, expected);
}

TEST(ServerRuleAlone, DownpourPushesWhatItAccruedAndStepsOnItsOwnBetweenFetches) {
  FakeServers servers;
  QuadraticJob job = alone(servers, "downpour", 4);
  job.options.own.set("push_steps", 2);
  job.options.own.set("fetch_steps", 4);
  const QuadraticRun result = run_well(job);
  // Own steps: 0 -> 4 -> 6 -> 7, gradients -8 -4 -2 -1; the fourth ends with a fetch instead of an own
  // step: servers 0 + 12/2 = 6, + 3/2 = 7.5.
  EXPECT_EQ(first_elems(result.workers[0].trace), (Vector{4, 6, 7, 7.5F}));
  EXPECT_EQ(result.workers[0].settled[0], (Vector{7.5F}));
  const Calls expected = {"pull 0@0", "push 0@0", "tick 0", "push 0@1",
                          "pull 0@2", "tick 1",   "finish", "pull 0@2"};
  EXPECT_EQ(servers.calls, expected);
  EXPECT_EQ(result.workers[0].report.more["local_steps"], 3);
}

TEST(ServerRuleAlone, DownpourFetchesReplaceItsOwnSteps) {
  FakeServers servers;
  QuadraticJob job = alone(servers, "downpour", 4);
  job.options.own.set("push_steps", 2);
  job.options.own.set("fetch_steps", 1);
  const QuadraticRun result = run_well(job);
  // Fetched after each step: 0 (nothing pushed yet), 8, 8, 8. Gradients -8, -8 (pushed: 0 + 16/2 = 8), 0, 0.
  EXPECT_EQ(first_elems(result.workers[0].trace), (Vector{0, 8, 8, 8}));
  EXPECT_EQ(result.workers[0].settled[0], (Vector{8}));
}

TEST(ServerRuleAlone, DownpourPushesTheRestBeforeAMeeting) {
  FakeServers servers;
  QuadraticJob job = alone(servers, "downpour", 3);
  job.options.own.set("push_steps", 2);
  job.options.own.set("fetch_steps", 2);
  job.settle_every = 1;
  const QuadraticRun result = run_well(job);
  // Every meeting sends the gradient of the one step before it and the next step begins with a fetch: SGD.
  EXPECT_EQ(first_elems(result.workers[0].settled), (Vector{4, 6, 7}));
  EXPECT_EQ(result.workers[0].report.more["pushes"], 3);
}

TEST(ServerRuleAlone, ElasticAveragingTakesBothLinesFromTheOldValues) {
  FakeServers servers;
  servers.elastic = true;
  servers.alpha = 0.25F;
  QuadraticJob job = alone(servers, "easgd-async", 3);
  job.options.own.set("period", 1);
  job.options.own.set("elasticity", 0.25);
  const QuadraticRun result = run_well(job);
  // x0 = c0 = 0. Step 0 exchanges nothing: x = 4.
  // Step 1: gradient step 4 -> 6, elastic 0.25 (4 - 0) = 1: x = 5, c = 1.
  // Step 2: gradient step 5 -> 6.5, elastic 0.25 (5 - 1) = 1: x = 5.5, c = 2.
  EXPECT_EQ(first_elems(result.workers[0].trace), (Vector{4, 5, 5.5F}));
  EXPECT_EQ(result.workers[0].settled[0], (Vector{2}));
  EXPECT_EQ(result.workers[0].weights, (Vector{5.5F}));
  EXPECT_EQ(result.workers[0].report.exchanges, 2);
}

TEST(ServerRuleAlone, ElasticAveragingExchangesAtAMeetingAndCompletesItsOwnLineAfterIt) {
  FakeServers servers;
  servers.elastic = true;
  servers.alpha = 0.25F;
  QuadraticJob job = alone(servers, "easgd-async", 2);
  job.options.own.set("period", 100);
  job.options.own.set("elasticity", 0.25);
  job.settle_every = 1;
  const QuadraticRun result = run_well(job);
  // x = 4 comes to the meeting, c = 0 + 4/4; then x = 4 - 4/4 = 3, and its step: 5.5.
  EXPECT_EQ(first_elems(result.workers[0].settled), (Vector{1, 1}));
  EXPECT_EQ(first_elems(result.workers[0].trace), (Vector{4, 5.5F}));
  const Calls expected = {"trade 0@0", "tick 0", "finish", "pull 0@1", "rejoin 1", "finish", "pull 0@1"};
  EXPECT_EQ(servers.calls, expected);
}

TEST(ServerRuleAlone, ElasticAveragingExchangesEveryPeriod) {
  FakeServers servers;
  servers.elastic = true;
  QuadraticJob job = alone(servers, "easgd-async", 10);
  job.options.own.set("period", 3);
  run_well(job);
  const Calls expected = {"trade 0@0", "tick 0", "trade 0@1", "tick 1",
                          "trade 0@2", "tick 2", "finish",    "pull 0@3"};
  EXPECT_EQ(servers.calls, expected);
}

// As real servers do, these keep the parameters only: the first two elements.
class FirstTwo final : public server::Client {
 public:
  template <typename T>
  using Task = runtime::Task<T>;
  using Version = server::Version;
  explicit FirstTwo(std::unique_ptr<server::Client> to) : to_(std::move(to)) {}
  static Tensor cut(const Tensor& t) { return t.slice(0, 0, 2); }
  Task<Status> init(std::uint32_t k, Tensor v, server::InitShare s) override {
    return to_->init(k, cut(v), s);
  }
  Task<Status> push(std::uint32_t k, Tensor v, server::PushNote n) override {
    return to_->push(k, cut(v), n);
  }
  Task<Result<Version>> pull(std::uint32_t k, Tensor i, std::int64_t c) override {
    return to_->pull(k, cut(i), c);
  }
  Task<Status> push_coded(std::uint32_t k, Tensor v, server::PushNote n, server::CodedNote c) override {
    return to_->push_coded(k, cut(v), n, c);
  }
  Task<Status> push_factors(std::uint32_t k, Tensor f, server::PushNote n) override {
    return to_->push_factors(k, f, n);
  }
  Task<Result<Version>> pull_coded(std::uint32_t k, Tensor i, std::int64_t c, std::int64_t e) override {
    return to_->pull_coded(k, cut(i), c, e);
  }
  Task<Result<Version>> push_pull(std::uint32_t k, Tensor v, Tensor i, server::PushNote n,
                                  server::ReadWhen w) override {
    return to_->push_pull(k, cut(v), cut(i), n, w);
  }
  Task<Status> push_rows(std::uint32_t k, Tensor r, Tensor v, server::PushNote n) override {
    return to_->push_rows(k, r, v, n);
  }
  Task<Result<Version>> pull_rows(std::uint32_t k, Tensor r, Tensor i, std::int64_t c) override {
    return to_->pull_rows(k, r, i, c);
  }
  Task<Status> tick(std::int64_t c) override { return to_->tick(c); }
  Task<Status> finish() override { return to_->finish(); }
  Task<Status> rejoin(std::int64_t c) override { return to_->rejoin(c); }

 private:
  std::unique_ptr<server::Client> to_;
};

TEST(ServerRuleAlone, WhatIsNoParameterStaysTheWorkersOwn) {
  for (const char* rule : {"bsp-server", "downpour", "easgd-async"}) {
    FakeServers servers;
    servers.elastic = std::string_view(rule) == "easgd-async";
    servers.alpha = 0.25F;
    QuadraticJob job = alone(servers, rule, 4);
    job.bucket_elems = {4};
    job.parameter_elems = {2};
    job.start = {0, 0, 3, 5};
    job.options.own.set("period", 1);
    job.options.own.set("push_steps", 2), job.options.own.set("fetch_steps", 2);
    job.gradient = [](const GradientAt& at) { return at.elem < 2 ? at.x - 8.0F : 0.0F; };
    job.options.own.set("elasticity", 0.25);
    job.make_client = [&servers](runtime::Runtime&, comm::Group&) {
      return std::make_unique<FirstTwo>(servers.client());
    };
    const QuadraticRun result = run_well(job);
    for (const Vector& v : {result.workers[0].weights, result.workers[0].settled[0]}) {
      ASSERT_EQ(v.size(), 4U);
      EXPECT_EQ(v[2], 3) << rule;
      EXPECT_EQ(v[3], 5) << rule;
    }
    EXPECT_GT(result.workers[0].weights[0], 4) << rule;
  }
}

TEST(ServerUpdates, EveryRowWithServersHasTheirOptionsAndOthersAreRefused) {
  for (const AgreementRow& row : agreement_table()) {
    const auto options = server_options_of(row, {}, 4);
    EXPECT_EQ(options.ok(), row.needs_server) << row.name;
    if (!options.ok()) continue;
    EXPECT_TRUE(server::find_consistency(options->consistency).ok()) << row.name;
    EXPECT_EQ(options->clocks.num_workers, 4) << row.name;
    const std::string_view name = row.name;
    EXPECT_EQ(options->clocks.gather, name == "soft" ? 2 : 1) << row.name;
    EXPECT_EQ(options->clocks.staleness, name == "ssp" ? 3 : 0) << row.name;
    EXPECT_EQ(options->clocks.fraction, name == "late" ? 0.75 : 1) << row.name;
    EXPECT_EQ(options->divide_by_staleness, name == "staleness-aware") << row.name;
    EXPECT_EQ(static_cast<bool>(options->make_update), row.updates_here) << row.name;
  }
}

TEST(ServerUpdates, TheElasticUpdateIsAGraphOverEveryPart) {
  const server::StoredPart parts[] = {{"fc/weight", 0, 0, 6}, {"[0,3)/fc/bias", 1, 0, 3}};
  const auto spec = elastic_update(parts, 0.25);
  ASSERT_TRUE(spec.ok()) << spec.status().to_string();
  EXPECT_EQ(spec->graph.variables().size(), 2U);
  EXPECT_TRUE(spec->graph.find_input("grad:fc/weight"));
  EXPECT_TRUE(spec->graph.find_input("grad:[0,3)/fc/bias"));
  EXPECT_TRUE(spec->states.empty());
}

TEST(ServerUpdates, TheElasticityDefaultsToNineTenthsOverTheWorkers) {
  OptionValues options;
  EXPECT_DOUBLE_EQ(elasticity_of(options, 4), 0.225);
  options.set("elasticity", 0.5);
  EXPECT_DOUBLE_EQ(elasticity_of(options, 4), 0.5);
}

}  // namespace
}  // namespace trireme::agree::testing
