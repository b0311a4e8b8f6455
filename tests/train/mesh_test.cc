// Models that are cut over the model axis of a mesh train to what one worker trains them to: within rounding
// of the model in one piece, and to the same bits for any number of replicas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/train/small_jobs.h"
#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"

namespace trireme::train {
namespace {

using testing::hash_in_process;
using testing::hash_virtual;
using ::testing::HasSubstr;
using testing::tiny_cases;
using testing::TinyCase;
using testing::VirtualRuns;

job::Job on_mesh(job::Job job, const std::string& mesh, const std::string& style = "tensor") {
  job.parallel.mesh = mesh;
  job.options.set(job::kStyle.name, style);
  job::take_workers_of_mesh(job, false);
  return job;
}

// What cannot be cut is refused, in mesh_refusals below.
std::vector<TinyCase> cut_cases() {
  std::vector<TinyCase> cases = tiny_cases();
  std::erase_if(cases, [](const TinyCase& c) { return c.name == "lars" || c.name == "factors"; });
  return cases;
}

struct Trained {
  record::Summary summary;
  io::NamedTensors tensors;
};

Trained train(const job::Job& job, const std::shared_ptr<const data::Dataset>& data) {
  VirtualRuns runs;
  Trained out;
  out.summary = runs.train(job, data).summary();
  out.tensors = runs.checkpoint().tensors;
  return out;
}

// Rounding differs, and 16 bits round much.
void expect_close(const Trained& got, const Trained& expected, double tolerance) {
  ASSERT_EQ(got.tensors.size(), expected.tensors.size());
  for (std::size_t i = 0; i < got.tensors.size(); ++i) {
    const auto& [name, a] = got.tensors[i];
    const auto& [other, b] = expected.tensors[i];
    ASSERT_EQ(name, other);
    ASSERT_EQ(a.type(), b.type()) << name;
    if (a.dtype() != DType::kF32) continue;
    double apart = 0, length = 0;
    for (std::int64_t k = 0; k < a.shape().num_elems(); ++k) {
      apart += std::pow(a.data<float>()[k] - b.data<float>()[k], 2);
      length += std::pow(b.data<float>()[k], 2);
    }
    EXPECT_LE(std::sqrt(apart), tolerance * std::sqrt(length) + 1e-6) << name;
  }
}

class MeshTrains : public ::testing::TestWithParam<std::size_t> {};

TEST_P(MeshTrains, ToWhatOneWorkerTrainsItTo) {
  const TinyCase c = cut_cases()[GetParam()];
  const Trained whole = train(c.job, c.data);
  const bool low = c.job.train.precision != "f32";
  for (const char* mesh : {"data=1,model=2", "data=2,model=2", "data=1,model=3"}) {
    SCOPED_TRACE(fmt::format("{} on {}", c.name, mesh));
    const Trained cut = train(on_mesh(c.job, mesh), c.data);
    EXPECT_EQ(cut.summary.steps, whole.summary.steps);
    EXPECT_NEAR(cut.summary.test_loss, whole.summary.test_loss, low ? 0.05 : 1e-4);
    expect_close(cut, whole, low ? 0.1 : 2e-4);
  }
}

TEST_P(MeshTrains, ToTheSameBitsForAnyNumberOfReplicas) {
  const TinyCase c = cut_cases()[GetParam()];
  const std::string expected = train(on_mesh(c.job, "data=1,model=2"), c.data).summary.parameters_sha256;
  ASSERT_EQ(expected.size(), 64U) << c.name;
  for (const char* mesh : {"data=2,model=2", "data=3,model=2"})
    EXPECT_EQ(hash_virtual(on_mesh(c.job, mesh), c.data), expected) << c.name << " on " << mesh;
  EXPECT_EQ(hash_in_process(on_mesh(c.job, "data=2,model=2"), c.data), expected) << c.name << ", threads";
}

INSTANTIATE_TEST_SUITE_P(Cases, MeshTrains, ::testing::Range(std::size_t{0}, cut_cases().size()),
                         [](const auto& info) { return cut_cases()[info.param].name; });

}  // namespace
}  // namespace trireme::train
