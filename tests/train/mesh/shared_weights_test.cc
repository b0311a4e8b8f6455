// Workers of one host with one set of weights: each updates its part, and the bits are those of workers that
// have a copy each.
#include <gtest/gtest.h>

#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/prepare/own_update.h"

namespace trireme::train::testing {
namespace {

bool shares(VirtualRuns& runs, const std::string& dir) {
  const Result<Json> plan = parse_json(runs.read(dir + "/plan.json"), "plan.json");
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  return plan.ok() && (*plan)["shared_weights"].get<bool>();
}

class SharedWeights : public ::testing::TestWithParam<TinyCase> {};

TEST_P(SharedWeights, GiveTheSameBitsAsCopies) {
  TinyCase c = GetParam();
  VirtualRuns runs;
  const record::Summary expected = runs.train(c.job, c.data, {.run_dir = ""}).summary();
  ASSERT_EQ(expected.parameters_sha256.size(), 64U);
  for (const int workers : {2, 3, 4}) {
    c.job.parallel.workers = workers;
    for (const char* overlap : {"none", "full"}) {
      c.job.parallel.overlap = overlap;
      const std::string dir = fmt::format("{}-{}", overlap, workers);
      const record::Summary got = runs.train(c.job, c.data, {.run_dir = dir, .transport = "shm"}).summary();
      EXPECT_EQ(got.parameters_sha256, expected.parameters_sha256) << dir;
      EXPECT_EQ(got.test_loss, expected.test_loss) << dir;
      EXPECT_EQ(shares(runs, dir), c.job.train.optimizer.kind != "lars" && c.job.parallel.codec == "none");
    }
  }
}

TEST_P(SharedWeights, AreSavedAndTakenUpAgainWithTheOptimisersState) {
  TinyCase c = GetParam();
  VirtualRuns alone, disturbed;
  const record::Summary expected = alone.train(c.job, c.data).summary();
  c.job.parallel.workers = 3;
  const record::Summary half = disturbed.train(c.job, c.data, {.stop_at = 3, .transport = "shm"}).summary();
  EXPECT_FALSE(half.finished);
  const io::Checkpoint saved = disturbed.checkpoint();
  EXPECT_EQ(saved.tensors.size(), alone.checkpoint().tensors.size());
  c.job.parallel.workers = 2;
  const record::Summary rest = disturbed.train(c.job, c.data, {.transport = "shm"}).summary();
  EXPECT_TRUE(rest.finished);
  EXPECT_EQ(rest.parameters_sha256, expected.parameters_sha256);
  EXPECT_EQ(disturbed.metrics(), alone.metrics());
}

// Replicas of a model that is cut share each part.
class SharedParts : public SharedWeights {};
TEST_P(SharedParts, GiveTheSameBitsAsCopies) {
  TinyCase c = GetParam();
  c.job.options.set(job::kStyle.name, "tensor");
  c.job.train.logical_tiles = 2;  // one layout on every transport
  for (const char* mesh : {"data=2,model=2", "data=3,model=2"}) {
    SCOPED_TRACE(mesh);
    job::Job job = c.job;
    job.parallel.mesh = mesh;
    job::take_workers_of_mesh(job, false);
    VirtualRuns apart, together;
    const record::Summary expected = apart.train(job, c.data).summary();
    EXPECT_FALSE(shares(apart, "run"));
    ASSERT_EQ(expected.parameters_sha256.size(), 64U);
    const RunOptions stop{.stop_at = 3, .transport = "shm"};
    EXPECT_FALSE(together.train(job, c.data, stop).summary().finished);
    EXPECT_EQ(shares(together, "run"), c.job.parallel.codec == "none");
    const record::Summary rest = together.train(job, c.data, {.transport = "shm"}).summary();
    EXPECT_EQ(rest.parameters_sha256, expected.parameters_sha256);
    EXPECT_EQ(together.metrics(), apart.metrics());
  }
}

// The others are refused where a model is cut.
std::vector<TinyCase> cut_cases() {
  std::vector<TinyCase> cases = tiny_cases();
  std::erase_if(cases, [](const TinyCase& c) { return c.name == "lars" || c.name == "factors"; });
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Tiny, SharedParts, ::testing::ValuesIn(cut_cases()),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Tiny, SharedWeights, ::testing::ValuesIn(tiny_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(SharedWeightsWanted, AreRefusedWhereTheyCannotBe) {
  job::Job job = tiny_job();
  job.parallel.workers = 2;
  job.parallel.weights = "shared";
  VirtualRuns runs;
  const RunOutcome apart = runs.train(job, tiny_pictures(40, 10), {.run_dir = ""});
  EXPECT_NE(apart.ranks[0].status().message().find("workers share no memory over 'inproc'; use auto"),
            std::string::npos)
      << apart.ranks[0].status().to_string();
  job.parallel.transport = "tcp";
  EXPECT_NE(job::check_job(job).message().find("workers share no memory over 'tcp'"), std::string::npos)
      << job::check_job(job).to_string();
  EXPECT_FALSE(job::can_share_weights(job, job::sending_of(job), "shm", 1).ok());
  EXPECT_TRUE(job::can_share_weights(job, job::sending_of(job), "shm", 2).ok());
  job.train.optimizer.kind = "lars";
  EXPECT_FALSE(job::can_share_weights(job, job::sending_of(job), "shm", 2).ok());
  job.train.optimizer.kind = "adam";
  job.parallel.agreement = "averaging";
  EXPECT_FALSE(job::can_share_weights(job, job::sending_of(job), "shm", 2).ok());
}

TEST(SharedWeightsWanted, AreOfReplicasWhereTheModelIsCut) {
  const auto why = [](const std::string& mesh, const std::string& tiles) {
    job::Job job = tiny_job();
    for (const char* set : {"parallel.weights=shared", "parallel.transport=shm"})
      EXPECT_TRUE(job::set_job_key(job, set).ok()) << set;
    EXPECT_TRUE(job::set_job_key(job, "parallel.mesh=" + mesh).ok());
    EXPECT_TRUE(job::set_job_key(job, "train.logical_tiles=" + tiles).ok());
    job::take_workers_of_mesh(job, false);
    return job::check_job(job).message();
  };
  EXPECT_EQ(why("data=2,model=2", "2"), "");
  EXPECT_NE(why("data=1,model=2", "2").find("one replica has nobody to share with"), std::string::npos);
  EXPECT_NE(why("data=2,model=2", "4").find("a worker has several tiles"), std::string::npos);
}

TEST(SharedWeightsPart, CoversEveryParameterOnceWhateverTheWorkers) {
  const std::vector<model::Parameter> parameters{{"a", {DType::kF32, {5, 7}}}, {"b", {DType::kF32, {100}}}};
  plan::Bucket bucket;
  bucket.parameters = {"b", "a"};
  bucket.offsets = {0, 112};
  bucket.num_elems = 160;
  for (int world = 1; world <= 12; ++world) {
    std::vector<int> times(160, 0);
    for (int rank = 0; rank < world; ++rank) {
      const auto slices = prepare::slices_of(bucket, parameters, comm::chunk_of(160, 4, rank, world));
      ASSERT_TRUE(slices.ok());
      for (const prepare::ParameterSlice& s : *slices) {
        EXPECT_EQ(s.in_bucket - s.in_parameter, s.parameter->name == "a" ? 112 : 0);
        for (std::int64_t i = 0; i < s.count; ++i) ++times[static_cast<std::size_t>(s.in_bucket + i)];
      }
    }
    for (std::size_t i = 0; i < times.size(); ++i)
      EXPECT_EQ(times[i], i < 100 || (i >= 112 && i < 147) ? 1 : 0) << world << " workers, element " << i;
  }
}

}  // namespace
}  // namespace trireme::train::testing
