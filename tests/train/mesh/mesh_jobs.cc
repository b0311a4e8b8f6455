#include "tests/train/mesh/mesh_jobs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"

namespace trireme::train::testing {

job::Job on_mesh(job::Job job, const std::string& mesh, const std::string& style) {
  job.parallel.mesh = mesh;
  job.options.set(job::kStyle.name, style);
  job::take_workers_of_mesh(job, false);
  return job;
}

start::SimulateReport simulate_gpt(int layers, const std::string& mesh) {
  start::SimulateOptions options;
  job::Job& job = options.job;
  job.model.name = "gpt2-124m";
  job.model.options = Json{{"layers", layers}, {"width", 1536}, {"heads", 16}, {"dropout", 0}};
  job.data.kind = "text";
  job.data.path = "none.txt";
  job.data.options.set("context", std::int64_t{1024});
  job.train.steps = 1;
  job.train.optimizer.kind = "adam";
  job.train.optimizer.lr = 0.001;
  job.options.set(job::kMicroBatches.name, std::int64_t{8});
  job = on_mesh(job, mesh);
  job.train.batch = job.parallel.workers;
  options.phantom = true;
  start::SimulateReport report = start::simulate_training(options, nullptr);
  EXPECT_TRUE(report.world.finished) << report.world.stuck.substr(0, 300);
  for (const auto& rank : report.ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
  return report;
}

void expect_close(const io::NamedTensors& got, const io::NamedTensors& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto& [name, a] = got[i];
    const auto& [other, b] = expected[i];
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

}  // namespace trireme::train::testing
