// Steps, evaluations and failures of replicas whose graphs hold collectives and messages: three layers that
// are cut over the ranks, trained as the trainer does it, against the same layers in one piece.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/comm/ranks.h"
#include "tests/comm/split_layers.h"
#include "tests/train/tiny_jobs.h"
#include "trireme/engine/replica.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/lower/faster_graph.h"
#include "trireme/op/ops.h"
#include "trireme/plan/slots.h"
#include "trireme/prepare/prepare.h"

namespace trireme::engine {
namespace {

using comm::Group;
using comm::testing::Body;
using comm::testing::Share;
using graph::Builder;
using graph::Graph;
using prepare::Prepared;
using runtime::Task;
using ::testing::HasSubstr;

constexpr std::int64_t kSteps = 4, kShardSamples = 4;
const model::ModelInput kInput{Shape{1, 6, 6}, 4};

job::Job layers_job(std::int64_t shards, double lr = 0.1) {
  job::Job job = train::testing::tiny_job();
  job.model.layers = *parse_json(R"([{"kind": "dense", "out": 8, "activation": "relu"},
                                     {"kind": "dense", "out": 6, "activation": "relu"},
                                     {"kind": "classifier"}])",
                                 "layers");
  job.train.logical_shards = shards;
  job.train.batch = shards * kShardSamples;
  job.train.optimizer.lr = lr;
  job.parallel.overlap = "buckets";
  job.parallel.weights = "own";
  return job;
}

std::shared_ptr<const data::Dataset> pictures() {
  static const std::shared_ptr<const data::Dataset> kSet = train::testing::tiny_pictures(200, 70);
  return kSet;
}

comm::testing::Layers layers_of(const Prepared& prepared) {
  comm::testing::Layers layers;
  layers.widths = {36, 8, 6, 4};
  TR_CHECK(prepared.parameters.size() == layers.names.size());
  for (std::size_t i = 0; i < layers.names.size(); ++i) layers.names[i] = prepared.parameters[i].name;
  return layers;
}

// What a model's graph is for a trainer, with collectives in it.
Graph split_graph(const Prepared& prepared, const Share& share, std::int64_t n, bool training) {
  Graph g;
  Builder b(g);
  const graph::Value images = b.input("images", DType::kF32, {n, 1, 6, 6});
  comm::testing::Samples samples{b.reshape(images, {n, 36}), b.input("labels", DType::kI32, {n}),
                                 b.input("weights", DType::kF32, {n})};
  const comm::testing::Layers layers = layers_of(prepared);
  const graph::Value logits = comm::testing::split_layers(b, layers, share, samples);
  comm::testing::add_scores(b, logits, samples);
  TR_CHECK(b.status().ok(), "{}", b.status().to_string());
  if (training) {
    std::vector<graph::Value> wrt;
    for (const std::string& name : layers.names) wrt.push_back(*g.find_variable(name));
    const auto grads = graph::add_gradients(g, *g.find_output("loss"), wrt);
    TR_CHECK(grads.ok(), "{}", grads.status().to_string());
    for (std::size_t i = 0; i < wrt.size(); ++i) g.set_output("grad:" + layers.names[i], (*grads)[i]);
  }
  const std::int64_t half = plan::kGraphSlots / 2;
  return *graph::number_slots(*lower::faster_graph({}, g), plan::kSlotGraph + (training ? 0 : half), half);
}

// The notices of the train graph are those that prepare() asked for, in its order.
prepare::Compiled compiled_train(const Prepared& prepared, const Graph& graph) {
  exec::CompileOptions options;
  options.width = prepared.plan.shard_threads;
  const auto notify = [&options](const std::string& output, const std::string& variable) {
    options.bound.push_back(output);
    options.notices.push_back({output, variable});
  };
  for (const plan::Bucket& bucket : prepared.plan.buckets)
    for (const std::string& p : bucket.parameters) notify("grad:" + p, p);
  notify("loss", "");
  notify("correct", "");
  for (const auto& [name, value] : graph.outputs()) options.fetches.push_back(name);
  return *exec::compile(graph, options);
}

std::shared_ptr<const Prepared> prepared_for(const job::Job& job, int world) {
  prepare::PrepareOptions options;
  options.replicas = world;
  options.transport = "inproc";
  const auto made = prepare::prepare(job, kInput, options);
  TR_CHECK(made.ok(), "{}", made.status().to_string());
  return *made;
}

// The job's graphs replaced by this rank's share of them.
std::shared_ptr<const Prepared> split_for(const job::Job& job, int rank, int world) {
  const auto whole = prepared_for(job, world);
  auto split = std::make_shared<Prepared>(*whole);
  split->train = compiled_train(*whole, split_graph(*whole, {rank, world, true}, kShardSamples, true));
  exec::CompileOptions options;
  options.fetches = {"loss", "correct"};
  split->eval = *exec::compile(split_graph(*whole, {rank, world, false}, whole->eval_batch, false), options);
  return split;
}

struct Trained {
  std::vector<double> losses;
  EvalOutput test;
  std::vector<float> parameters;  // all of them, in name order
  Status failure;
};

Task<Status> train_steps(Replica& replica, const job::Job& job, Trained& out) {
  co_await replica.clear();
  TR_CO_RETURN_IF_ERROR(co_await replica.initialise(1));
  TR_CO_RETURN_IF_ERROR(replica.publish());
  replica.start_feed(0, kSteps);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    StepInput input;
    input.step = input.first_batch = input.applied = step;
    input.num_samples = job.train.batch;
    input.learning_rate = static_cast<float>(*job.train.optimizer.lr);
    const auto ran = co_await replica.run_step(input);
    if (!ran.ok()) co_return ran.status();
    out.losses.push_back(ran->loss);
  }
  const auto late = co_await replica.drain();
  if (!late.ok()) co_return late.status();
  TR_CO_ASSIGN_OR_RETURN(out.test, co_await replica.evaluate(kSteps, Part::kTest));
  TR_CO_ASSIGN_OR_RETURN(const io::NamedTensors model, replica.parameters());
  for (const auto& [name, tensor] : model)
    for (const float v : tensor.values<float>()) out.parameters.push_back(v);
  co_return Status();
}

using Maker = std::function<std::shared_ptr<const Prepared>(int rank, int world)>;

// One Trained per rank; what a killed rank has is empty.
Body training(const job::Job& job, const Maker& make, std::vector<Trained>& out) {
  return [&job, &make, &out](runtime::Runtime& rt, Group& group) -> Task<void> {
    Trained& own = out[static_cast<std::size_t>(group.rank())];
    auto replica = Replica::make(rt, group, job, make(group.rank(), group.world()), pictures());
    own.failure = replica.status();
    if (replica.ok()) own.failure = co_await train_steps(**replica, job, own);
    if (!own.failure.ok() && group.verdict().ok()) group.fail("training", own.failure.message());
    const Status left = co_await group.leave();
    EXPECT_EQ(left.ok(), own.failure.ok()) << left.to_string();
  };
}

std::vector<Trained> train_virtually(const job::Job& job, int world, const Maker& make,
                                     runtime::WorldSpec spec = {}) {
  std::vector<Trained> out(static_cast<std::size_t>(world));
  comm::testing::RankOptions options;
  options.world = world;
  comm::testing::expect_finished(
      comm::testing::run_virtual(options, std::move(spec), training(job, make, out)));
  return out;
}

std::vector<Trained> train_on_threads(const job::Job& job, int world, const Maker& make) {
  std::vector<Trained> out(static_cast<std::size_t>(world));
  comm::testing::RankOptions options;
  options.world = world;
  comm::testing::run_on_threads(options, training(job, make, out));
  return out;
}

void expect_close(const Trained& got, const Trained& want) {
  ASSERT_TRUE(got.failure.ok()) << got.failure.to_string();
  ASSERT_TRUE(want.failure.ok()) << want.failure.to_string();
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (std::size_t i = 0; i < want.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], want.losses[i], 1e-5) << "step " << i;
  EXPECT_LT(want.losses.back(), want.losses.front()) << "nothing was learned";
  ASSERT_EQ(got.parameters.size(), want.parameters.size());
  for (std::size_t i = 0; i < want.parameters.size(); ++i)
    ASSERT_NEAR(got.parameters[i], want.parameters[i], 1e-5) << "parameter " << i;
  EXPECT_NEAR(got.test.loss, want.test.loss, 1e-5);
  EXPECT_NEAR(got.test.accuracy, want.test.accuracy, 1e-9);
}

// Two shards of every rank are under way at once; the test samples are no multiple of the ranks' batches.
TEST(Collectives, InTheGraphsOfReplicasTrainTheSameModel) {
  for (int world = 1; world <= 4; ++world) {
    SCOPED_TRACE(fmt::format("world {}", world));
    const job::Job job = layers_job(2 * world);
    const Maker whole = [&job](int, int size) { return prepared_for(job, size); },
                split = [&job](int rank, int size) { return split_for(job, rank, size); };
    const std::vector<Trained> one = train_virtually(job, 1, whole),
                               threads = train_on_threads(job, world, split),
                               machines = train_virtually(job, world, split);
    for (std::size_t r = 0; r < threads.size(); ++r) {
      expect_close(threads[r], one[0]);
      EXPECT_EQ(threads[r].parameters, threads[0].parameters) << "ranks differ";
      EXPECT_EQ(machines[r].parameters, threads[0].parameters) << "virtual time decides bits";
    }
  }
}

TEST(Collectives, NeedAsManyShardsOnEveryRank) {
  const job::Job job = layers_job(4);
  const Maker split = [&job](int rank, int size) { return split_for(job, rank, size); };
  for (const Trained& rank : train_virtually(job, 3, split))
    EXPECT_THAT(rank.failure.message(),
                HasSubstr("got 2, 1, 1 shards, expected as many on each of 3 workers; "
                          "use a multiple of 3 for train.logical_shards"));
}

// Rank 1 dies in the collectives of the second step.
TEST(Collectives, OfADeadRankEndWithOneErrorThatNamesIt) {
  const job::Job job = layers_job(6);
  const Maker split = [&job](int rank, int size) { return split_for(job, rank, size); };
  for (const std::uint64_t call : {1U, 20U, 37U}) {
    runtime::WorldSpec spec;
    spec.faults.push_back(
        {.kind = runtime::FaultSpec::Kind::kKill, .runtime = 1, .site = "collective", .index = call});
    const std::vector<Trained> ranks = train_virtually(job, 3, split, std::move(spec));
    EXPECT_TRUE(ranks[1].parameters.empty());
    for (const std::size_t r : {0U, 2U}) {
      const Status& failure = ranks[r].failure;
      EXPECT_EQ(failure.context().peer, 1) << failure.to_string();
      EXPECT_EQ(failure.context().reason, ranks[0].failure.context().reason);
    }
  }
}

// The learning rate breaks the weights in the first step. Every rank looks by itself for what broke.
TEST(Collectives, DoNotHideWhatBrokeFirst) {
  const job::Job job = layers_job(4, 1e30);
  const Maker split = [&job](int rank, int size) { return split_for(job, rank, size); };
  const std::vector<Trained> ranks = train_virtually(job, 2, split);
  int named = 0;
  for (const Trained& rank : ranks) {
    EXPECT_FALSE(rank.failure.ok());
    EXPECT_THAT(rank.failure.message(), HasSubstr("the loss is not a number at step 2"));
    named += rank.failure.message().find("the first tensor that broke: ") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(named, 1);
}

}  // namespace
}  // namespace trireme::engine
