// parallel.zero: replicas that divide the optimizer's state, gradients and parameters train to the bits of
// replicas that have all of them, and a run goes on at another level, on another mesh, with other workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/mesh/mesh_jobs.h"
#include "tests/train/small_jobs.h"
#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/engine/state/save_pieces.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"

namespace trireme::train::testing {
namespace {

using ::testing::HasSubstr;

job::Job at_level(job::Job job, std::int64_t level, int workers) {
  job.options.set(job::kZero.name, level);
  job.parallel.workers = workers;
  return job;
}

job::Job on_mesh(job::Job job, std::int64_t level, const std::string& mesh) {
  job = testing::on_mesh(std::move(job), mesh);
  job.options.set(job::kZero.name, level);
  return job;
}

// Others are refused, below.
std::vector<TinyCase> divided_cases() {
  std::vector<TinyCase> cases = tiny_cases();
  std::erase_if(cases, [](const TinyCase& c) { return !job::check_job(at_level(c.job, 3, 2)).ok(); });
  return cases;
}

class Zero : public ::testing::TestWithParam<TinyCase> {};
class ZeroGoesOn : public Zero {};  // not where a run ends when it is good enough

TEST_P(Zero, GivesTheSameBitsAtEveryLevelForAnyNumberOfWorkers) {
  const TinyCase& c = GetParam();
  const std::string expected = hash_virtual(at_level(c.job, 0, 1), c.data);
  ASSERT_EQ(expected.size(), 64U);
  for (const int workers : {1, 2, 3, 4})
    for (const std::int64_t level : {1, 2, 3})
      EXPECT_EQ(hash_virtual(at_level(c.job, level, workers), c.data), expected)
          << "level " << level << ", " << workers << " workers";
  EXPECT_EQ(hash_in_process(at_level(c.job, 3, 3), c.data), expected) << "threads";
}

TEST_P(ZeroGoesOn, AtAnotherLevelWithOtherWorkers) {
  const TinyCase& c = GetParam();
  VirtualRuns alone, disturbed;
  const record::Summary expected = alone.train(at_level(c.job, 0, 1), c.data).summary();
  std::int64_t stop_at = 0;
  const std::pair<std::int64_t, int> starts[] = {{3, 3}, {0, 2}, {1, 4}, {2, 2}};
  for (const auto& [level, workers] : starts) {
    stop_at += 2;
    const RunOutcome part = disturbed.train(at_level(c.job, level, workers), c.data, {.stop_at = stop_at});
    ASSERT_FALSE(part.summary().finished) << "level " << level;
    EXPECT_EQ(part.summary().zero, level);
  }
  const record::Summary rest = disturbed.train(at_level(c.job, 3, 4), c.data).summary();
  EXPECT_TRUE(rest.finished);
  EXPECT_EQ(rest.parameters_sha256, expected.parameters_sha256);
  EXPECT_EQ(disturbed.metrics(), alone.metrics());
  // Whole tensors by name, whoever wrote their parts.
  const io::Checkpoint got = disturbed.checkpoint(), want = alone.checkpoint();
  ASSERT_EQ(got.tensors.size(), want.tensors.size());
  for (std::size_t i = 0; i < want.tensors.size(); ++i) {
    EXPECT_EQ(got.tensors[i].first, want.tensors[i].first);
    ASSERT_EQ(got.tensors[i].second.type(), want.tensors[i].second.type()) << want.tensors[i].first;
    const auto bytes = [](const Tensor& t) {
      return std::string_view(reinterpret_cast<const char*>(t.raw()), t.type().num_bytes());
    };
    EXPECT_TRUE(bytes(got.tensors[i].second) == bytes(want.tensors[i].second)) << want.tensors[i].first;
  }
}

std::vector<TinyCase> cases_that_go_on() {
  std::vector<TinyCase> cases = divided_cases();
  std::erase_if(cases, [](const TinyCase& c) { return c.name == "target"; });
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Tiny, ZeroGoesOn, ::testing::ValuesIn(cases_that_go_on()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Tiny, Zero, ::testing::ValuesIn(divided_cases()),
                         [](const auto& info) { return info.param.name; });

// A model of many buckets, whose gradients and gathered parameters use memory in turn.
job::Job deep_job() {
  job::Job job = tiny_job();
  const Json wide{{"kind", "dense"}, {"out", 24}, {"activation", "relu"}}, norm{{"kind", "layer_norm"}};
  job.model.layers = {wide, norm, wide, wide, norm, wide, wide, {{"kind", "classifier"}}};
  job.train.optimizer.kind = "adam";
  job.train.optimizer.lr = 0.01;
  return job;
}

TEST(ZeroOfManyBuckets, GivesTheSameBitsWhileBucketsUseMemoryInTurn) {
  const auto data = tiny_pictures(96, 24);
  const std::string expected = hash_virtual(at_level(deep_job(), 0, 1), data);
  for (const std::int64_t level : {2, 3})
    for (const char* overlap : {"buckets", "full", "none"}) {
      job::Job job = deep_job();
      job.parallel.overlap = overlap;
      for (const int workers : {2, 3, 4})
        EXPECT_EQ(hash_virtual(at_level(job, level, workers), data), expected)
            << overlap << ", level " << level << ", " << workers << " workers";
      EXPECT_EQ(hash_in_process(at_level(job, level, 3), data), expected) << overlap << ", threads";
    }
  const std::string cut = hash_virtual(on_mesh(deep_job(), 0, "data=1,model=2"), data);
  for (const std::int64_t level : {2, 3})
    EXPECT_EQ(hash_virtual(on_mesh(deep_job(), level, "data=2,model=2"), data), cut) << "level " << level;
}

TEST(ZeroOfManyBuckets, EndsWithAllRanksWhereALossBreaks) {
  job::Job job = deep_job();
  job.train.optimizer.kind = "sgd";
  job.train.optimizer.lr = 1e30;
  for (const std::int64_t level : {2, 3}) {
    VirtualRuns runs;
    const RunOutcome broken = runs.train(at_level(job, level, 4), tiny_pictures(96, 24));
    for (const auto& rank : broken.ranks) {
      ASSERT_FALSE(rank.ok()) << "level " << level;
      EXPECT_THAT(std::string(rank.status().message()), HasSubstr("is not a number")) << "level " << level;
    }
  }
}

TEST(ZeroOnAMesh, DividesEveryPartOfTheModelAmongItsReplicas) {
  for (const char* name : {"momentum", "adam", "normed", "clipped", "text", "bf", "frozen"}) {
    const std::vector<TinyCase> cases = tiny_cases();
    const auto c =
        std::find_if(cases.begin(), cases.end(), [&](const TinyCase& t) { return t.name == name; });
    ASSERT_NE(c, cases.end()) << name;
    const std::string expected = hash_virtual(on_mesh(c->job, 0, "data=1,model=2"), c->data);
    ASSERT_EQ(expected.size(), 64U) << name;
    for (const std::int64_t level : {1, 2, 3})
      for (const char* mesh : {"data=2,model=2", "data=3,model=2"})
        EXPECT_EQ(hash_virtual(on_mesh(c->job, level, mesh), c->data), expected)
            << name << ", level " << level << " on " << mesh;
  }
}

TEST(ZeroOnAMesh, GoesOnOnAnotherMesh) {
  job::Job job = tiny_job();
  job.train.optimizer.kind = "adam";
  job.train.optimizer.lr = 0.01;
  const auto data = tiny_pictures(96, 24);
  const std::string expected = hash_virtual(on_mesh(job, 0, "data=1,model=2"), data);
  VirtualRuns runs;
  EXPECT_FALSE(runs.train(on_mesh(job, 3, "data=2,model=2"), data, {.stop_at = 3}).summary().finished);
  EXPECT_FALSE(runs.train(on_mesh(job, 1, "data=4,model=1"), data, {.stop_at = 6}).summary().finished);
  const record::Summary summary = runs.train(on_mesh(job, 2, "data=3,model=2"), data).summary();
  EXPECT_TRUE(summary.finished);
  EXPECT_EQ(summary.parameters_sha256, expected);
}

TEST(ZeroOfAKilledRun, IsTakenUpAtAnotherLevel) {
  job::Job job = tiny_job();
  job.train.checkpoint_steps = 2;
  const auto data = tiny_pictures(96, 24);
  const std::string expected = hash_virtual(at_level(job, 0, 1), data);
  runtime::FaultSpec fault;
  fault.runtime = 2;
  fault.site = "collective";
  fault.index = 35;
  VirtualRuns runs({fault});
  const RunOutcome broken = runs.train(at_level(job, 3, 4), data);
  for (const std::size_t rank : {0U, 1U, 3U}) {
    ASSERT_FALSE(broken.ranks[rank].ok()) << rank;
    EXPECT_EQ(broken.ranks[rank].status().context().peer, 2) << broken.ranks[rank].status().to_string();
  }
  EXPECT_EQ(runs.train(at_level(job, 1, 3), data).summary().parameters_sha256, expected);
}

// By what rules, codecs and optimizers cannot.
TEST(ZeroWanted, IsRefusedWithTheReason) {
  const auto refused = [](const char* set) {
    job::Job job = at_level(tiny_job(), 1, 2);
    EXPECT_TRUE(job::set_job_key(job, set).ok()) << set;
    const Status status = job::check_job(job);
    EXPECT_EQ(status.code(), Code::kInvalid) << set;
    return std::string(status.message());
  };
  EXPECT_THAT(refused("parallel.agreement=averaging"), HasSubstr("expected bsp where parallel.zero = 1"));
  EXPECT_THAT(refused("parallel.codec=1bit"), HasSubstr("whoever decodes has whole gradients"));
  EXPECT_THAT(refused("parallel.codec=powersgd"), HasSubstr("whoever decodes has whole gradients"));
  EXPECT_THAT(refused("parallel.collective=ring"), HasSubstr("expected fixed-tree"));
  EXPECT_THAT(refused("parallel.weights=shared"), HasSubstr("auto or own"));
  EXPECT_THAT(refused("train.optimizer.kind=lars"), HasSubstr("does not look at whole tensors"));
  EXPECT_THAT(refused("train.device=cuda"), HasSubstr("expected cpu"));
  EXPECT_THAT(refused("parallel.zero=4"), HasSubstr("0"));
}

}  // namespace
}  // namespace trireme::train::testing
