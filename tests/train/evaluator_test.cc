#include "trireme/engine/evaluator.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/train/one_machine.h"
#include "tests/train/tiny_jobs.h"
#include "trireme/exec/session.h"
#include "trireme/job/job_parts.h"

namespace trireme::train {
namespace {

using runtime::Runtime;
using runtime::Task;

struct Fixture {
  job::Job job = testing::tiny_job();
  std::shared_ptr<data::Dataset> data = testing::tiny_pictures(13, 10, 7);
  model::ModelInput input = *job::model_input(job, *data);
  exec::Variables variables;

  Fixture() {
    data->augment.flip = true;  // not in evaluations
    const model::ModelGraphs graphs = *job::build_job_model(job, input, 1);
    for (const model::Parameter& p : graphs.parameters) {
      const Tensor t = *Tensor::allocate(cpu_device(), p.type);
      model::initialise(p, 3, t.values<float>());
      EXPECT_TRUE(variables.add(p.name, t).ok());
    }
  }

  // Loss and right ones of samples one by one.
  std::pair<double, double> direct(std::int64_t first, std::int64_t count) const {
    const graph::Graph graph = job::build_job_model(job, input, 1)->eval;
    exec::BlockingSession session = *exec::BlockingSession::make(graph, {}, 1);
    for (const std::string& name : variables.names())
      EXPECT_TRUE(session.variables().add(name, *variables.get(name)).ok());
    std::pair<double, double> sums{0, 0};
    for (std::int64_t id = first; id < first + count; ++id) {
      const prepare::BatchTensors b = *prepare::allocate_batch(cpu_device(), input, 1);
      data::fill_batch(*data, std::span(&id, 1), {}, prepare::view_of(b, input));
      const auto got =
          session.run({{"images", b.x}, {"labels", b.labels}, {"weights", b.weights}}, {"loss", "correct"});
      EXPECT_TRUE(got.ok()) << got.status().to_string();
      sums.first += *(*got)[0].data<float>();
      sums.second += *(*got)[1].data<float>();
    }
    return sums;
  }
};

struct Sums {
  double loss = 0, correct = 0;
  std::int64_t batches = 0;
};

Task<void> evaluate(Runtime& rt, Fixture& f, std::int64_t batch, int slots, engine::Part part, Sums& out) {
  engine::EvaluatorOptions options;
  options.input = f.input;
  exec::CompileOptions compile;
  compile.fetches = {"loss", "correct"};
  const model::ModelGraphs graphs = *job::build_job_model(f.job, f.input, batch);
  options.graph = *exec::compile(graphs.eval, std::move(compile));
  options.batch = batch;
  options.variables = &f.variables;
  options.data = f.data;
  options.slots = slots;
  auto evaluator = engine::Evaluator::make(rt, std::move(options));
  EXPECT_TRUE(evaluator.ok());
  if (!evaluator.ok()) co_return;
  out.batches = (*evaluator)->num_batches(part);
  std::vector<float> results(static_cast<std::size_t>(2 * out.batches), -1);
  // In two runs, as two ranks would share it.
  const std::int64_t half = out.batches / 2;
  for (const auto& [begin, end] : {std::pair{half, out.batches}, std::pair{std::int64_t{0}, half}}) {
    const Status status = co_await (*evaluator)->run(part, begin, end, results);
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  for (std::size_t i = 0; i + 1 < results.size(); i += 2) {
    EXPECT_GE(results[i + 1], 0) << "batch " << i / 2 << " was left out";
    out.loss += results[i];
    out.correct += results[i + 1];
  }
}

TEST(Evaluator, SumsAreThoseOfTheSamplesOneByOneForAnyBatchAndPart) {
  Fixture f;
  const std::tuple<engine::Part, std::int64_t, std::int64_t> parts[] = {
      {engine::Part::kTrain, 0, 13}, {engine::Part::kTest, 13, 10}, {engine::Part::kValidation, 23, 7}};
  for (const auto& [part, first, count] : parts) {
    EXPECT_EQ(engine::range_of(*f.data, part).first, first);
    EXPECT_EQ(engine::range_of(*f.data, part).count, count);
    const auto [loss, correct] = f.direct(first, count);
    for (const std::int64_t batch : {1, 4, 7, 50}) {
      for (const int slots : {1, 3}) {
        SCOPED_TRACE(fmt::format("samples from {}, batch {}, {} slots", first, batch, slots));
        Sums got;
        const engine::Part which = part;
        testing::run_on_one_machine([&](Runtime& rt) { return evaluate(rt, f, batch, slots, which, got); });
        EXPECT_EQ(got.batches, (count + batch - 1) / batch);
        EXPECT_NEAR(got.loss, loss, 1e-5 * loss);
        EXPECT_EQ(got.correct, correct);
      }
    }
  }
}

}  // namespace
}  // namespace trireme::train
