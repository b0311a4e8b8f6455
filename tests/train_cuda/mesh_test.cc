// Models that are cut over workers, on a GPU that they share: against the host, and the same bits whoever has
// which part and however activations travel.
#include <gmock/gmock.h>

#include "tests/kernel_cuda/needs_gpu.h"
#include "tests/train/small_jobs.h"
#include "tests/train/tiny_jobs.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::train {
namespace {

std::string why_no_gpu() {
  static const auto opened = kernel::cuda::open_device(0);
  return opened.ok() ? "" : opened.status().message();
}

// Every weight is cut, and nothing is left to prices.
job::Job cut(job::Job job, const std::string& mesh, const std::string& device,
             const std::string& style = "tensor") {
  job.train.logical_shards = 4;
  job.train.logical_tiles = 2;
  job.train.device = device;
  job.parallel.mesh = mesh;
  job.options.set(job::kStyle.name, style);
  job::take_workers_of_mesh(job, false);
  return job;
}

Result<record::Summary> trained(const job::Job& job, std::shared_ptr<const data::Dataset> data) {
  start::InProcessOptions options;
  options.job = job;
  options.data = std::move(data);
  return start::train_in_process(options)[0];
}

class MeshOnGpu : public ::testing::Test {
 protected:
  void SetUp() override { TR_NEEDS_GPU(why_no_gpu()); }
  const std::shared_ptr<const data::Dataset> pictures_ = testing::tiny_pictures(60, 12);
  const std::shared_ptr<const data::Dataset> text_ = testing::tiny_text(60, 12);
};

TEST_F(MeshOnGpu, LossesAreThoseOfTheHostWithinRounding) {
  const auto here = trained(cut(testing::tiny_job(), "data=1,model=2", "cpu"), pictures_);
  const auto there = trained(cut(testing::tiny_job(), "data=1,model=2", "cuda"), pictures_);
  ASSERT_TRUE(here.ok() && there.ok()) << here.status().to_string() << there.status().to_string();
  EXPECT_EQ(there->device, "cuda");
  EXPECT_NEAR(there->test_loss, here->test_loss, 1e-3);
  EXPECT_EQ(there->rule["axis_collectives"], "mapped");
  EXPECT_EQ(there->rule["axis_host_copies_per_byte"], 0);
  EXPECT_GT(there->bytes_by_axis.at("model"), 0);
}

TEST_F(MeshOnGpu, EndsInTheSameBitsForAnyNumberOfReplicasAndEveryWayOfExchange) {
  const std::string expected =
      testing::hash_in_process(cut(testing::tiny_job(), "data=1,model=2", "cuda"), pictures_);
  ASSERT_EQ(expected.size(), 64U);
  EXPECT_EQ(testing::hash_in_process(cut(testing::tiny_job(), "data=2,model=2", "cuda"), pictures_),
            expected);
  job::Job staged = cut(testing::tiny_job(), "data=2,model=2", "cuda");
  staged.parallel.device_collectives = "staged";
  const auto through_host = trained(staged, pictures_);
  ASSERT_TRUE(through_host.ok()) << through_host.status().to_string();
  EXPECT_EQ(through_host->parameters_sha256, expected);
  EXPECT_EQ(through_host->rule["axis_collectives"], "staged");
}

// One worker runs the ranks of all tiles, which exchange in its memory.
TEST_F(MeshOnGpu, EndsInTheSameBitsWhereOneWorkerHasAllTiles) {
  const std::string expected =
      testing::hash_in_process(cut(testing::tiny_job(), "data=1,model=2", "cuda"), pictures_);
  EXPECT_EQ(testing::hash_in_process(cut(testing::tiny_job(), "data=1,model=1", "cuda"), pictures_),
            expected);
}

void expect_the_hosts(const testing::TinyCase& c, const std::string& style) {
  SCOPED_TRACE(c.name + ", " + style);
  const auto here = trained(cut(c.job, "data=1,model=2", "cpu", style), c.data);
  const auto there = trained(cut(c.job, "data=1,model=2", "cuda", style), c.data);
  ASSERT_TRUE(here.ok() && there.ok()) << here.status().to_string() << there.status().to_string();
  EXPECT_EQ(there->device, "cuda");
  EXPECT_NEAR(there->test_loss, here->test_loss, c.job.train.precision == "f32" ? 1e-2 : 5e-2);
}

// Clipping waits for a vote, f16 adapts its scale, experts are dealt out.
TEST_F(MeshOnGpu, TrainsWhatTheHostTrains) {
  int found = 0;
  for (const testing::TinyCase& c : testing::tiny_cases())
    for (const char* name : {"normed", "dropout", "clipped", "half", "experts"})
      if (c.name == name) ++found, expect_the_hosts(c, c.name == "experts" ? "expert" : "tensor");
  EXPECT_EQ(found, 5);
}

// Heads are cut, or tokens, where attention must know its first query.
TEST_F(MeshOnGpu, CutsAttentionByHeadsAndByTokens) {
  testing::TinyCase c{"gpt", testing::tiny_job(), text_};
  c.job.model.layers = Json::array();
  c.job.model.name = "char-gpt";
  c.job.data.kind = "text";
  c.job.data.path = "tiny.txt";
  c.job.model.options = Json{{"width", 8}, {"layers", 1}, {"heads", 2}, {"dropout", 0.2}};
  expect_the_hosts(c, "tensor");
  expect_the_hosts(c, "sequence");
}

}  // namespace
}  // namespace trireme::train
