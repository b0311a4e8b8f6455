// An LSTM language model in bf16 on the CPU: its recurrent layers keep and multiply bf16 where the processor
// has units for it, and learn as in f32.
#include <gtest/gtest.h>

#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"

namespace trireme::train::testing {
namespace {

double loss_after(const std::string& precision, std::int64_t steps) {
  job::Job job = tiny_job();
  job.model.layers = Json::array();
  job.model.name = "char-lstm";
  job.model.options = Json{{"width", 24}, {"layers", 2}, {"dropout", 0}};
  job.data.kind = "text";
  job.data.path = "tiny.txt";
  job.train.steps = steps;
  job.train.precision = precision;
  job.train.optimizer = {};
  job.train.optimizer.kind = "adam";
  job.train.optimizer.lr = 0.02;
  VirtualRuns runs;
  return runs.train(job, tiny_text(40, 9), {.run_dir = ""}).summary().test_loss;
}

TEST(LowLstm, LearnsInBf16AsInF32) {
  const double start = loss_after("f32", 1), full = loss_after("f32", 60), low = loss_after("bf16", 60);
  EXPECT_LT(full, 0.7 * start);
  EXPECT_NEAR(low, full, 0.05 * start) << "from " << start;
}

}  // namespace
}  // namespace trireme::train::testing
