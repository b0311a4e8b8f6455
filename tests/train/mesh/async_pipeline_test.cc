// Pipelines that never drain: they learn what their formulas say, by weights of the ages that their
// timetables say, whoever is fast or slow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tests/train/mesh/mesh_jobs.h"
#include "tests/train/small_jobs.h"
#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/job/sample_order.h"

namespace trireme::train {
namespace {

using testing::hash_in_process;
using testing::hash_virtual;
using ::testing::HasSubstr;
using testing::on_mesh;
using testing::VirtualRuns;

void set(job::Job& job, const std::string& text) {
  const Status status = job::set_job_key(job, text);
  EXPECT_TRUE(status.ok()) << status.to_string();
}

// One number in, two classes out, three layers of one unit or two: small enough to differentiate by hand.
std::shared_ptr<data::Dataset> numbers(std::int64_t num_train) {
  auto set = std::make_shared<data::Dataset>();
  set->name = set->source = "numbers";
  set->sample_shape = Shape{1};
  set->dtype = DType::kF32;
  set->num_classes = 2;
  set->num_train = num_train;
  set->num_test = 4;
  for (std::int64_t i = 0; i < set->num_samples(); ++i) {
    set->labels.push_back(static_cast<std::int32_t>(i % 3 == 0));
    set->features.push_back(static_cast<float>(0.3 * static_cast<double>(i % 7) - 0.8));
  }
  return set;
}

// The net's parameters by layer: u = a x + b, v = c u + d, logits = e v + f.
struct Net {
  std::array<double, 8> p{};  // a, b | c, d | e0, e1, f0, f1
};
constexpr std::array<int, 8> kStageOf = {0, 0, 1, 1, 2, 2, 2, 2};

// Forward by `net`, and back by `back`: the same, where weights are stashed.
Net gradient(const Net& net, const Net& back, const data::Dataset& set, std::span<const std::int64_t> ids) {
  const auto& [a, b, c, d, e0, e1, f0, f1] = net.p;
  const double back_c = back.p[2], back_e0 = back.p[4], back_e1 = back.p[5];
  Net g;
  for (const std::int64_t id : ids) {
    const double x = set.features[static_cast<std::size_t>(id)];
    const int label = set.labels[static_cast<std::size_t>(id)];
    const double u = a * x + b, v = c * u + d, z0 = e0 * v + f0, z1 = e1 * v + f1;
    const double p1 = 1 / (1 + std::exp(z0 - z1)), share = 1.0 / static_cast<double>(ids.size());
    const double g1 = (p1 - label) * share, g0 = -g1, gv = back_e0 * g0 + back_e1 * g1, gu = back_c * gv;
    const std::array<double, 8> of_sample = {gu * x, gu, gv * u, gv, g0 * v, g1 * v, g0, g1};
    for (std::size_t i = 0; i < g.p.size(); ++i) g.p[i] += of_sample[i];
  }
  return g;
}

constexpr std::int64_t kBatch = 6, kSteps = 9;
constexpr double kRate = 0.3;

job::Job chain_job(const std::string& pipeline) {
  job::Job job = testing::tiny_job();
  job.model.layers = *parse_json(
      R"([{"kind": "dense", "out": 1}, {"kind": "dense", "out": 1}, {"kind": "classifier"}])", "layers");
  job.train.batch = kBatch;
  job.train.steps = kSteps;
  job.train.logical_shards = 0;
  job.train.optimizer.kind = "sgd";
  job.train.optimizer.lr = kRate;
  job.train.optimizer.schedule = "constant";
  job.train.optimizer.warmup = 0;
  job.train.eval_steps = 1000;
  job.train.checkpoint_steps = 1000;
  set(job, "parallel.pipeline=" + pipeline);
  return on_mesh(std::move(job), "stage=3", "price");
}

Net net_of(const io::NamedTensors& tensors) {
  Net net;
  std::size_t next = 0;
  // In the order of layers: weight before bias.
  for (const char* layer : {"dense1", "dense2", "classifier1"})
    for (const char* what : {"weight", "bias"}) {
      const std::string name = fmt::format("{}/{}", layer, what);
      const auto found =
          std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.first == name; });
      EXPECT_TRUE(found != tensors.end()) << name;
      if (found == tensors.end()) return net;
      for (const float value : found->second.values<float>()) net.p[next++] = value;
    }
  EXPECT_EQ(next, net.p.size());
  return net;
}

struct AsyncCase {
  const char* name;
  const char* pipeline;
  const char* more;
  int updates_behind(std::int64_t step, int stage) const {
    const std::string kind = pipeline;
    if (kind == "2bw") return static_cast<int>(std::min<std::int64_t>(step, 1));
    const int behind = std::string_view(more) == "parallel.vertical_sync=true" ? 2 : 2 - stage;
    return static_cast<int>(std::min<std::int64_t>(step, behind));
  }
  bool stashes() const { return std::string_view(more) != "parallel.weight_stashing=false"; }
};
class AsyncPipeline : public ::testing::TestWithParam<AsyncCase> {};
INSTANTIATE_TEST_SUITE_P(Kinds, AsyncPipeline,
                         ::testing::Values(AsyncCase{"async", "async", ""},
                                           AsyncCase{"vertical_sync", "async", "parallel.vertical_sync=true"},
                                           AsyncCase{"not_stashed", "async",
                                                     "parallel.weight_stashing=false"},
                                           AsyncCase{"two_bw", "2bw", "parallel.micro_batches=3"}),
                         [](const auto& info) { return std::string(info.param.name); });

// w(t+1) = w(t) - eta grad f(w_1(t - n_1), w_2(t - n_2), w_3(t - n_3)), n_s of the row; the first steps have
// no older weights. Without stashing, products with weights on the way back are of w(t). By hand, in double.
TEST_P(AsyncPipeline, LearnsByWeightsOfItsAges) {
  const auto data = numbers(40);
  job::Job job = chain_job(GetParam().pipeline);
  if (*GetParam().more != '\0') set(job, GetParam().more);
  job::Job still = job;
  still.train.optimizer.lr = 1e-30;
  VirtualRuns first, runs;
  (void)first.train(still, data).summary();
  std::vector<Net> at{net_of(first.checkpoint().tensors)};  // per update
  const auto order =
      *job::SampleOrder::make(*data, job, static_cast<std::int32_t>(job::shards_of(job)), false);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    std::vector<std::int64_t> ids;
    for (std::int32_t shard = 0; shard < job::shards_of(job); ++shard) {
      const data::ShardSamples samples =
          order.shard(step / order.batches_per_epoch(), step % order.batches_per_epoch(), shard);
      ids.insert(ids.end(), samples.ids.begin(), samples.ids.begin() + samples.num_valid);
    }
    Net read;
    for (std::size_t i = 0; i < read.p.size(); ++i)
      read.p[i] = at[static_cast<std::size_t>(step - GetParam().updates_behind(step, kStageOf[i]))].p[i];
    const Net g = gradient(read, GetParam().stashes() ? read : at.back(), *data, ids);
    Net next = at.back();
    for (std::size_t i = 0; i < next.p.size(); ++i) next.p[i] -= kRate * g.p[i];
    at.push_back(next);
  }
  const record::Summary summary = runs.train(job, data).summary();
  EXPECT_EQ(summary.steps, kSteps);
  const Net got = net_of(runs.checkpoint().tensors);
  for (std::size_t i = 0; i < got.p.size(); ++i) EXPECT_NEAR(got.p[i], at.back().p[i], 2e-6) << i;
  ASSERT_EQ(summary.per_worker.size(), 3U);
  for (int stage = 0; stage < 3; ++stage) {
    std::map<std::int64_t, std::int64_t> ages;
    for (std::int64_t step = 0; step < kSteps; ++step)
      ages[GetParam().updates_behind(step, stage)] += job::micro_batches_of(job);
    EXPECT_EQ(summary.per_worker[static_cast<std::size_t>(stage)].staleness, ages) << stage;
  }
}

// Eight layers with a skip, batch norm and dropout.
job::Job deep_job(const std::string& pipeline, const std::string& mesh) {
  job::Job job = testing::tiny_job();
  job.model.layers = *parse_json(
      R"([{"kind": "dense", "out": 12, "activation": "relu"}, {"kind": "batch_norm"},
          {"kind": "residual", "layers": [{"kind": "dense", "out": 12, "activation": "tanh"}]},
          {"kind": "dropout", "rate": 0.2}, {"kind": "dense", "out": 10, "activation": "relu"},
          {"kind": "dense", "out": 9, "activation": "relu"}, {"kind": "classifier"}])",
      "layers");
  job.train.batch = 24;
  job.train.logical_shards = 0;
  job.train.optimizer.kind = "sgd";
  job.options.set(job::kSegments.name, std::int64_t{4});
  set(job, "parallel.pipeline=" + pipeline);
  if (pipeline == "2bw") set(job, "parallel.micro_batches=4");
  return on_mesh(std::move(job), mesh, "price");
}

// Versions follow the timetable, not the clock.
TEST_P(AsyncPipeline, HasTheSameBitsOnThreadsAndHoweverOftenItIsJudged) {
  const auto data = testing::tiny_pictures(96, 24);
  for (const char* mesh : {"stage=4", "data=2,stage=3"}) {
    job::Job job = deep_job(GetParam().pipeline, mesh);
    if (std::string(GetParam().pipeline) == "async" && *GetParam().more != '\0') set(job, GetParam().more);
    const std::string expected = hash_virtual(job, data);
    ASSERT_EQ(expected.size(), 64U) << mesh;
    EXPECT_EQ(hash_virtual(job, data, 7), expected) << mesh;
    EXPECT_EQ(hash_in_process(job, data), expected) << mesh << ", threads";
    job.train.eval_steps = 1;
    EXPECT_EQ(hash_virtual(job, data), expected) << mesh << ", judged after every step";
    job.options.set(job::kPipeline.name, std::string("1f1b"));
    job.options.set(job::kVerticalSync.name, false);
    job.options.set(job::kWeightStashing.name, true);
    EXPECT_NE(hash_virtual(job, data), expected) << mesh;
  }
}

TEST_P(AsyncPipeline, OfTilesHasTheBitsOfTheTilesOnOneWorker) {
  const auto data = testing::tiny_pictures(96, 24);
  job::Job tiles = deep_job(GetParam().pipeline, "stage=2,model=2"),
           line = deep_job(GetParam().pipeline, "stage=2");
  for (job::Job* job : {&tiles, &line}) {
    job->train.logical_tiles = 2;
    job->options.set(job::kStyle.name, std::string("tensor"));
  }
  EXPECT_EQ(hash_virtual(tiles, data), hash_virtual(line, data));
}

// One stage has nothing older to read.
TEST(AsyncPipelineOfOneStage, IsPlainDescentToTheBit) {
  const auto data = testing::tiny_pictures(96, 24);
  EXPECT_EQ(hash_virtual(deep_job("async", "data=1"), data), hash_virtual(deep_job("1f1b", "data=1"), data));
  EXPECT_EQ(hash_virtual(deep_job("async", "data=2"), data), hash_virtual(deep_job("1f1b", "data=2"), data));
}

// Losses of all steps are logged once each, in order, whatever is known late.
TEST(AsyncPipelines, LogEveryStepOnce) {
  VirtualRuns runs;
  job::Job job = deep_job("async", "stage=4");
  const testing::RunOutcome outcome = runs.train(job, testing::tiny_pictures(96, 24));
  ASSERT_EQ(outcome.steps.size(), 10U);
  for (std::size_t i = 0; i < outcome.steps.size(); ++i) {
    EXPECT_EQ(outcome.steps[i].step, static_cast<std::int64_t>(i) + 1);
    EXPECT_TRUE(std::isfinite(outcome.steps[i].loss));
  }
}

// With the layers behind it frozen, the loss is convex in the first layer, whose gradients are two updates
// old.
TEST(AsyncPipelines, ConvergeOnAConvexProblemFromManySeeds) {
  const auto data = testing::tiny_pictures(96, 24);
  for (int seed = 1; seed <= 12; ++seed) {
    job::Job job = testing::tiny_job();
    job.model.layers = *parse_json(
        R"([{"kind": "dense", "out": 8}, {"kind": "dense", "out": 8}, {"kind": "classifier"}])", "layers");
    job.model.freeze = {"dense2", "classifier1"};
    job.train.logical_shards = 0;
    job.train.seed = seed;
    job.train.batch = 24;
    job.train.steps = 160;
    job.train.eval_steps = 1000;
    job.train.checkpoint_steps = 1000;
    job.train.optimizer.kind = "sgd";
    job.train.optimizer.lr = 0.1;
    set(job, "parallel.pipeline=async");
    VirtualRuns runs;
    const testing::RunOutcome outcome = runs.train(on_mesh(std::move(job), "stage=3", "price"), data);
    ASSERT_EQ(outcome.steps.size(), 160U);
    EXPECT_LT(outcome.steps.back().loss, 0.5 * outcome.steps.front().loss) << "seed " << seed;
  }
}

TEST(AsyncPipelines, GoOnAfterAStopAndWithOtherStages) {
  const auto data = testing::tiny_pictures(96, 24);
  for (const char* kind : {"async", "2bw"}) {
    VirtualRuns runs;
    testing::RunOptions stop;
    stop.stop_at = 4;
    const record::Summary first = runs.train(deep_job(kind, "stage=4"), data, stop).summary();
    EXPECT_FALSE(first.finished);
    EXPECT_GT(first.steps, 4);  // what all stages have begun is ended
    EXPECT_LT(first.steps, 10);
    const record::Summary rest = runs.train(deep_job(kind, "stage=3"), data).summary();
    EXPECT_TRUE(rest.finished);
    EXPECT_EQ(rest.steps, 10);
    job::Job other = deep_job("1f1b", "stage=3");
    if (std::string(kind) == "2bw") set(other, "parallel.micro_batches=4");
    VirtualRuns again;
    EXPECT_FALSE(again.train(deep_job(kind, "stage=4"), data, stop).summary().finished);
    const testing::RunOutcome refused = again.train(other, data);
    ASSERT_FALSE(refused.ranks[0].ok());
    EXPECT_THAT(refused.ranks[0].status().message(), HasSubstr("this run has learned with"));
  }
}

TEST(AsyncPipelines, ARankThatIsKilledIsNamed) {
  for (int rank = 0; rank < 4; ++rank)
    for (const int index : {1, 9, 30}) {
      runtime::FaultSpec fault;
      fault.runtime = rank;
      fault.site = "collective";
      fault.index = index;
      VirtualRuns runs({fault});
      const auto broken = runs.train(deep_job("async", "data=2,stage=2"), testing::tiny_pictures(96, 24));
      for (int other = 0; other < 4; ++other) {
        if (other == rank) continue;
        ASSERT_FALSE(broken.ranks[static_cast<std::size_t>(other)].ok()) << rank << " at " << index;
        EXPECT_THAT(broken.ranks[static_cast<std::size_t>(other)].status().message(),
                    HasSubstr(fmt::format("rank {} (data {}, stage {})", rank, rank / 2, rank % 2)));
      }
    }
}

// Gradients of weights that two stages read would wait for each other.
TEST(AsyncPipelines, RefuseWeightsThatTwoStagesReadUnlessUpdatesAreFew) {
  job::Job job = testing::tiny_job();
  job.model.layers = Json::array();
  job.model.name = "char-gpt";
  job.model.options = Json{{"width", 8}, {"layers", 2}, {"heads", 2}};
  job.data.kind = "text";
  job.data.path = "tiny.txt";
  job.train.logical_shards = 0;
  job.train.batch = 12;
  job.train.optimizer.kind = "adam";
  const auto data = testing::tiny_text(40, 9);
  set(job, "parallel.pipeline=async");
  VirtualRuns runs;
  const auto refused = runs.train(on_mesh(job, "stage=2", "price"), data);
  ASSERT_FALSE(refused.ranks[0].ok());
  EXPECT_THAT(refused.ranks[0].status().message(), HasSubstr("'tokens/weight' is read at stages 0 and 1"));
  set(job, "parallel.pipeline=2bw");
  set(job, "parallel.micro_batches=4");
  const std::string hash = hash_virtual(on_mesh(job, "stage=2", "price"), data);
  EXPECT_EQ(hash.size(), 64U);
  EXPECT_EQ(hash_in_process(on_mesh(job, "stage=2", "price"), data), hash);
}

TEST(AsyncPipelines, RefuseWhatCannotGoAlong) {
  struct Refusal {
    const char* kind;
    const char* set;
    const char* says;
  };
  const Refusal refusals[] = {
      {"async", "parallel.micro_batches=2", "2bw updates after several (here 2)"},
      {"2bw", "parallel.micro_batches=3", "4 or more with parallel.pipeline = 2bw"},
      {"async", "train.optimizer.clip_norm=1", "0 with parallel.pipeline = async, whose stages never wait"},
      {"async", "train.precision=f16", "f32 or bf16"},
      {"async", "train.nan=skip", "stop with"},
      {"2bw", "parallel.zero=1", "parallel.zero"},
      {"2bw", "train.optimizer.max_batch_multiplier=2", "its timetables have one batch in every step"},
      {"2bw", "parallel.vertical_sync=true", "it is for async"},
      {"2bw", "parallel.weight_stashing=false", "true with parallel.pipeline = 2bw; without it is for async"},
  };
  for (const Refusal& r : refusals) {
    job::Job job = deep_job(r.kind, "stage=4");
    set(job, r.set);
    EXPECT_THAT(job::check_job(job).message(), HasSubstr(r.says)) << r.set;
  }
  for (const char* other : {"parallel.vertical_sync=true", "train.memory_limit=1GiB"}) {
    job::Job job = deep_job("async", "stage=4");
    set(job, "parallel.weight_stashing=false");
    EXPECT_TRUE(job::check_job(job).ok());
    set(job, other);
    EXPECT_THAT(job::check_job(job).message(), HasSubstr("parallel.weight_stashing")) << other;
  }
  job::Job alone = testing::tiny_job();
  set(alone, "parallel.pipeline=async");
  EXPECT_THAT(job::check_job(alone).message(), HasSubstr("its default without a stage axis"));
  // Old updates act like momentum, so there is none unless it is asked for.
  job::Job job = deep_job("async", "stage=4");
  job.train.optimizer.kind = "momentum";
  EXPECT_EQ(job::momentum_of(job), 0);
  set(job, "train.optimizer.momentum=0.5");
  EXPECT_EQ(job::momentum_of(job), 0.5);
}

}  // namespace
}  // namespace trireme::train
