// What every rule over servers keeps, whatever its formula: the same model for all, convergence, and nobody
// hangs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/agree/with_servers.h"
#include "trireme/base/rng.h"

namespace trireme::agree::testing {
namespace {

std::vector<const char*> server_rules() {
  std::vector<const char*> names;
  for (const AgreementRow& row : agreement_table())
    if (row.needs_server) names.push_back(row.name);
  return names;
}

// Four workers of different speed, one of them four times slower; a gradient with noise around x - 3.
QuadraticJob noisy(const char* rule, std::uint64_t seed) {
  QuadraticJob job;
  job.rule = rule;
  job.workers = 4;
  job.steps = 60;
  job.learning_rate = 0.125F;
  job.seed = seed;
  job.bucket_elems = {5, 3};
  job.compute_ns = {kMilli, 900 * kMicro, 1300 * kMicro, 4 * kMilli};
  job.options.own.set("period", 2);
  job.options.own.set("staleness", 2);
  job.gradient = [seed](const GradientAt& at) {
    Philox random(seed, static_cast<std::uint64_t>(at.worker * 1000000 + at.step * 100) + at.elem);
    return at.x - 3.0F + 0.5F * (random.next_uniform() - 0.5F);
  };
  return job;
}

bool same_bits(const Vector& a, const Vector& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void expect_one_model(const QuadraticRun& run, const std::string& what) {
  const QuadraticWorker& first = run.workers[0];
  for (std::size_t w = 1; w < run.workers.size(); ++w) {
    if (run.workers[w].dead) continue;
    ASSERT_EQ(run.workers[w].settled.size(), first.settled.size()) << what;
    for (std::size_t i = 0; i < first.settled.size(); ++i)
      EXPECT_TRUE(same_bits(run.workers[w].settled[i], first.settled[i]))
          << what << ", worker " << w << ", meeting " << i;
  }
}

TEST(ServerRules, SevenOfThem) { EXPECT_EQ(server_rules().size(), 7U); }

TEST(ServerRules, ConvergeFromManySeedsToOneModelForAll) {
  for (const char* rule : server_rules())
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      QuadraticJob job = noisy(rule, seed);
      job.settle_every = 20;
      add_servers(job, static_cast<int>(seed % 3) + 1);
      const QuadraticRun result = run_well(job);
      const std::string what = fmt::format("{}, seed {}", rule, seed);
      ASSERT_EQ(result.workers[0].settled.size(), 3U) << what;
      expect_one_model(result, what);
      for (const float x : result.workers[0].settled.back()) EXPECT_NEAR(x, 3, 0.25) << what;
    }
}

TEST(ServerRules, SspWithoutStalenessIsBspToTheBit) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    std::vector<Vector> models;
    for (const char* rule : {"bsp-server", "ssp"}) {
      QuadraticJob job = noisy(rule, seed);
      job.workers = 3;
      job.compute_ns = {kMilli, 5 * kMilli, 2 * kMilli};
      job.options.own.set("staleness", 0);
      job.steps = 12;
      add_servers(job, 2);
      models.push_back(run_well(job).workers[0].settled.back());
    }
    EXPECT_TRUE(same_bits(models[0], models[1])) << "seed " << seed;
  }
}

TEST(ServerRules, BspDoesNotDependOnSpeedsOrServers) {
  Vector expected;
  for (int servers = 1; servers <= 3; ++servers)
    for (const TimeNs slow : {kMilli, 7 * kMilli}) {
      QuadraticJob job = noisy("bsp-server", 3);
      job.steps = 8;
      job.compute_ns = {kMilli, slow, 2 * kMilli, kMilli};
      add_servers(job, servers);
      const Vector model = run_well(job).workers[0].settled.back();
      if (expected.empty()) expected = model;
      EXPECT_TRUE(same_bits(model, expected)) << servers << " servers";
    }
}

TEST(ServerRules, SspKeepsItsBoundAndUsesIt) {
  for (const std::int64_t bound : {1, 3}) {
    QuadraticJob job = noisy("ssp", 5);
    job.steps = 24;
    job.options.own.set("staleness", bound);
    add_servers(job, 2);
    const QuadraticRun result = run_well(job);
    const QuadraticWorker &fast = result.workers[1], &slow = result.workers[3];
    std::int64_t largest = 0;
    for (const QuadraticWorker& w : result.workers)
      for (const auto& [staleness, count] : w.report.staleness) largest = std::max(largest, staleness);
    EXPECT_EQ(largest, bound);
    bool was_ahead = false;
    for (std::size_t c = 0; c < fast.ended.size(); ++c) {
      was_ahead |= fast.ended[c] < slow.ended[c];
      const std::size_t behind = static_cast<std::size_t>(bound) + 1;
      if (c < behind) continue;
      EXPECT_GT(fast.ended[c], slow.ended[c - behind]) << "clock " << c;
    }
    EXPECT_TRUE(was_ahead);
  }
}

TEST(ServerRules, AsynchronousOnesHaveStaleUpdatesAndTheFastDoNotWaitForTheSlow) {
  for (const char* rule : {"downpour", "staleness-aware", "easgd-async"}) {
    QuadraticJob job = noisy(rule, 2);
    Counts counts;
    add_servers(job, 1, &counts);
    const QuadraticRun result = run_well(job);
    EXPECT_LT(result.workers[1].ended.back(), result.workers[3].ended.back() / 2) << rule;
    EXPECT_GT(result.workers[3].report.staleness.rbegin()->first, 2) << rule;
  }
}

TEST(ServerRules, LateDropsOnlyTheSlowWorkersPushes) {
  QuadraticJob job = noisy("late", 2);
  job.workers = 4;
  job.steps_of = {60, 60, 60, 15};
  job.compute_ns = {kMilli, kMilli, kMilli, 4 * kMilli};
  Counts counts;
  add_servers(job, 1, &counts);
  const QuadraticRun result = run_well(job);
  EXPECT_GT(counts[0].dropped, 0);
  for (int w = 0; w < 3; ++w)
    EXPECT_LE(result.workers[static_cast<std::size_t>(w)].report.more["clocks_skipped"], 1) << w;
  EXPECT_GT(result.workers[3].report.more["clocks_skipped"], 30);
}

// As a trainer does: comes to meetings after its own numbers of steps, waits there until all have come, and
// then settles.
class MeetsAfter final : public Agreement {
 public:
  struct Shared {
    int num_workers = 0;
    std::int64_t arrivals = 0;
    std::vector<std::vector<Vector>> models;  // by worker
  };
  MeetsAfter(const RuleContext& context, const AgreementRow& row, std::vector<std::int64_t> after,
             Shared& shared)
      : rt_(*context.rt), worker_(context.worker), after_(std::move(after)), shared_(shared) {
    for (const Tensor& w : context.weights) into_.push_back(*Tensor::allocate(cpu_device(), w.type()));
    rule_ = row.make(context);
  }
  runtime::Task<Status> begin_step(StepInfo step) override { return rule_->begin_step(step); }
  runtime::Task<Status> exchange(BucketExchange bucket) override {
    return rule_->exchange(std::move(bucket));
  }
  runtime::Task<Status> end_step(StepInfo step) override {
    TR_CO_RETURN_IF_ERROR(co_await rule_->end_step(step));
    if (std::find(after_.begin(), after_.end(), step.step) == after_.end()) co_return Status();
    TR_CO_RETURN_IF_ERROR(co_await rule_->arrive());
    ++shared_.arrivals;
    const std::int64_t all = ++meetings_ * shared_.num_workers;
    while (shared_.arrivals < all) {
      if (rt_.now() > kSecond) co_return error(Code::kDeadline, "worker {} waits for others", worker_);
      co_await rt_.sleep_for(100 * kMicro);
    }
    TR_CO_RETURN_IF_ERROR(co_await rule_->settle(into_));
    Vector model;
    for (const Tensor& t : into_)
      for (const float x : t.values<float>()) model.push_back(x);
    shared_.models[static_cast<std::size_t>(worker_)].push_back(std::move(model));
    co_return Status();
  }
  runtime::Task<Status> settle(std::vector<Tensor> into) override { return rule_->settle(std::move(into)); }
  runtime::Task<Status> finish() override { return rule_->finish(); }
  void on_lost(int worker) override { rule_->on_lost(worker); }
  RuleReport report() const override { return rule_->report(); }

 private:
  runtime::Runtime& rt_;
  int worker_;
  std::unique_ptr<Agreement> rule_;
  std::vector<std::int64_t> after_;
  Shared& shared_;
  std::vector<Tensor> into_;
  std::int64_t meetings_ = 0;
};

TEST(ServerRules, WorkersThatMeetAfterDifferentNumbersOfStepsHoldNobodyUp) {
  for (const char* rule : server_rules()) {
    QuadraticJob job = noisy(rule, 4);
    job.workers = 3;
    job.steps_of = {9, 5, 12};
    job.compute_ns = {kMilli, 3 * kMilli, kMilli};
    job.options.own.set("warm_start_steps", 20);  // downpour: longer than until the first meeting
    const std::vector<std::vector<std::int64_t>> after = {{2, 6}, {0, 1}, {8, 9}};
    MeetsAfter::Shared shared;
    shared.num_workers = 3;
    shared.models.resize(3);
    const AgreementRow* row = *find_agreement(rule);
    job.updates_here = row->updates_here;
    job.make_rule = [&](const RuleContext& context) -> std::unique_ptr<Agreement> {
      return std::make_unique<MeetsAfter>(context, *row, after[static_cast<std::size_t>(context.worker)],
                                          shared);
    };
    add_servers(job, 2);
    const QuadraticRun result = run_well(job);
    expect_one_model(result, rule);
    for (const auto& of_worker : shared.models) {
      ASSERT_EQ(of_worker.size(), 2U) << rule;
      for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(of_worker[i], shared.models[0][i])) << rule;
    }
  }
}

TEST(ServerRules, AWorkerThatDiesIsLeftOut) {
  for (const char* rule : server_rules())
    for (const TimeNs when : {2 * kMilli, 30 * kMilli, 200 * kMilli}) {  // the last: others wait at the end
      QuadraticJob job = noisy(rule, 7);
      job.expendable = true;
      runtime::FaultSpec kill;
      kill.runtime = 3;
      kill.at = when;
      job.world.faults = {kill};
      add_servers(job, 2);
      const QuadraticRun result = run(job);
      const std::string what = fmt::format("{}, killed at {} ms", rule, when / kMilli);
      EXPECT_TRUE(result.workers[3].dead) << what;
      for (std::size_t w = 0; w < 3; ++w)
        EXPECT_TRUE(result.workers[w].status.ok()) << what << ": " << result.workers[w].status.to_string();
      expect_one_model(result, what);
      ASSERT_FALSE(result.workers[0].settled.empty()) << what;
      for (const float x : result.workers[0].settled.back()) EXPECT_NEAR(x, 3, 0.25) << what;
    }
}

TEST(ServerRules, AServerThatDiesEndsEverybodyAndIsNamed) {
  for (const char* rule : server_rules()) {
    QuadraticJob job = noisy(rule, 7);
    job.expendable = true;
    runtime::FaultSpec kill;
    kill.runtime = 5;
    kill.at = 20 * kMilli;
    job.world.faults = {kill};
    add_servers(job, 2);
    const QuadraticRun result = run(job);
    for (const QuadraticWorker& w : result.workers) {
      EXPECT_FALSE(w.status.ok()) << rule;
      EXPECT_EQ(w.status.context().peer.value_or(-1), 5) << rule << ": " << w.status.to_string();
    }
  }
}

TEST(ServerRules, APhantomRunTakesTheSameCourse) {
  for (const char* rule : server_rules()) {
    QuadraticJob job = noisy(rule, 7);
    job.steps = 6;
    job.bucket_elems = {100000, 7};
    job.world.phantom = true;
    job.settle_every = 4;
    Counts counts;
    add_servers(job, 2, &counts);
    const QuadraticRun result = run_well(job);
    EXPECT_GT(counts[0].pushes, 0) << rule;
    EXPECT_EQ(result.workers[0].report.more["meetings"], 2) << rule;
  }
}

}  // namespace
}  // namespace trireme::agree::testing
