// Trained models that the ranks of a mesh judge and ask together: the same results as of one process, to the
// bit where replicas share the samples and within rounding where the model is cut. No rank has all of it.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/train/measured_memory.h"
#include "tests/train/trained_runs.h"
#include "trireme/apply/generate.h"
#include "trireme/apply/predict.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"
#include "trireme/start/mesh_ranks.h"

namespace trireme::train {
namespace {

using runtime::Runtime;
using runtime::Task;
using testing::digits_job;
using ::testing::HasSubstr;

// What a rank does with its part of the model.
using UseModel = std::function<Task<Status>(Runtime& rt, const apply::LoadedModel& model)>;

class PartUser final : public start::RankWork {
 public:
  PartUser(apply::ModelSource source, const parallel::Mesh& mesh, const UseModel& use)
      : source_(std::move(source)), mesh_(mesh), use_(use) {}
  Task<Status> prepare(Runtime& rt) override {
    Result<apply::OpenedModel> opened = co_await apply::open_model(rt, source_);
    if (opened.ok()) opened_ = std::make_unique<apply::OpenedModel>(std::move(*opened));
    co_return opened.status();
  }
  TimeNs deadline() const override { return 2 * kSecond; }
  Task<Status> run(Runtime& rt, comm::Group& group) override {
    auto model = co_await apply::read_model_part(rt, std::move(*opened_), group, mesh_);
    if (!model.ok()) co_return model.status();
    co_return co_await use_(rt, *model);
  }

 private:
  const apply::ModelSource source_;
  const parallel::Mesh& mesh_;
  const UseModel& use_;
  std::unique_ptr<apply::OpenedModel> opened_;
};

// As the option --mesh is read.
parallel::Mesh mesh_from(const std::string& text) {
  job::Job job;
  job.parallel.mesh = text;
  job::take_workers_of_mesh(job, false);
  return *job::mesh_of(job);
}

class MeshApply : public testing::TrainedRuns {
 protected:
  std::vector<Status> on_mesh(const std::string& name, const std::string& text, const UseModel& use) {
    const parallel::Mesh mesh = mesh_from(text);
    apply::ModelSource source;
    source.path = path(name);
    return start::run_mesh_threads(mesh, [&](int) { return std::make_unique<PartUser>(source, mesh, use); });
  }
  void expect_all_ok(const std::vector<Status>& ranks) {
    for (std::size_t r = 0; r < ranks.size(); ++r)
      EXPECT_TRUE(ranks[r].ok()) << "rank " << r << ": " << ranks[r].to_string();
  }

  apply::Score score_on(const std::string& name, const std::string& mesh) {
    apply::Score first;
    expect_all_ok(on_mesh(name, mesh, [&](Runtime& rt, const apply::LoadedModel& model) {
      return score_into(rt, model, model.part->is_first() ? &first : nullptr);
    }));
    return first;
  }
  apply::Score score_alone(const std::string& name) {
    apply::Score score;
    const apply::LoadedModel model = load(name);
    run([&](Runtime& rt) { return expect_ok(score_into(rt, model, &score)); });
    return score;
  }

  static Task<Status> score_into(Runtime& rt, const apply::LoadedModel& model, apply::Score* out) {
    Result<apply::Score> score = co_await apply::score_model(rt, model, engine::Part::kTest);
    if (score.ok() && out != nullptr) *out = std::move(*score);
    co_return score.status();
  }
  static Task<Status> classify_into(Runtime& rt, const apply::LoadedModel& model, std::int64_t most,
                                    std::vector<apply::Prediction>* out) {
    const apply::Samples samples = apply::samples_of_part(model, engine::Part::kTest);
    auto found = co_await apply::classify(rt, model, samples, most);
    if (found.ok() && out != nullptr) *out = std::move(*found);
    co_return found.status();
  }
  static Task<Status> rebuild_into(Runtime& rt, const apply::LoadedModel& model,
                                   apply::Reconstructions* out) {
    const apply::Samples samples = apply::samples_of_part(model, engine::Part::kTest);
    auto found = co_await apply::reconstruct(rt, model, samples, 0);
    if (found.ok() && out != nullptr) *out = std::move(*found);
    co_return found.status();
  }
  static Task<Status> go_on_into(Runtime& rt, const apply::LoadedModel& model, std::string* out) {
    apply::GenerateOptions options;
    options.prompt = "ab";
    options.tokens = 20;
    options.temperature = 0;
    auto made = co_await apply::generate(rt, model, std::move(options), nullptr);
    if (made.ok() && out != nullptr) *out = made->text;
    co_return made.status();
  }
  static Task<void> expect_ok(Task<Status> task) {
    const Status status = co_await task;
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
};

void expect_close(const apply::Score& got, const apply::Score& expected) {
  EXPECT_EQ(got.samples, expected.samples);
  EXPECT_NEAR(got.loss, expected.loss, 1e-5 * expected.loss);
  EXPECT_NEAR(got.accuracy, expected.accuracy, 1e-12);  // no sample is on the edge between two classes
  EXPECT_EQ(got.confusion, expected.confusion);
}

TEST_F(MeshApply, ReplicasThatShareTheBatchesGiveTheSameBits) {
  write("text.txt", testing::small_text());
  train("digits", digits_job());
  train("text", testing::text_job(path("text.txt")));
  for (const char* name : {"digits", "text"}) {
    const apply::Score alone = score_alone(name);
    for (const char* mesh : {"data=2", "data=3"}) {  // of two batches of digits
      SCOPED_TRACE(fmt::format("{} on {}", name, mesh));
      const apply::Score shared = score_on(name, mesh);
      EXPECT_EQ(shared.loss, alone.loss);
      EXPECT_EQ(shared.accuracy, alone.accuracy);
      EXPECT_EQ(shared.confusion, alone.confusion);
    }
  }
}

TEST_F(MeshApply, ModelsThatAreCutAreJudgedWithinRounding) {
  write("text.txt", testing::small_text());
  train("digits", digits_job());
  train("norm", testing::batch_norm_job());
  train("autoencoder", testing::autoencoder_job());
  train("text", testing::text_job(path("text.txt")));
  for (const char* name : {"digits", "norm", "autoencoder", "text"}) {
    const apply::Score alone = score_alone(name);
    for (const char* mesh : {"model=2", "data=2,model=2", "model=3"}) {
      SCOPED_TRACE(fmt::format("{} on {}", name, mesh));
      expect_close(score_on(name, mesh), alone);
    }
  }
}

TEST_F(MeshApply, StagesGiveTheBitsOfOneProcess) {
  write("text.txt", testing::small_text());
  train("digits", digits_job());
  train("norm", testing::batch_norm_job());
  train("autoencoder", testing::autoencoder_job());
  train("text", testing::text_job(path("text.txt")));
  for (const char* name : {"digits", "norm", "autoencoder", "text"}) {
    const apply::Score alone = score_alone(name);
    for (const char* mesh : {"stage=2", "data=2,stage=2"}) {
      SCOPED_TRACE(fmt::format("{} on {}", name, mesh));
      const apply::Score staged = score_on(name, mesh);
      EXPECT_EQ(staged.loss, alone.loss);
      EXPECT_EQ(staged.accuracy, alone.accuracy);
      EXPECT_EQ(staged.confusion, alone.confusion);
      EXPECT_EQ(staged.top5, alone.top5);
    }
    SCOPED_TRACE(fmt::format("{} on stage=2,model=2", name));
    expect_close(score_on(name, "stage=2,model=2"), alone);
  }
}

// Eight blocks, some of which are skipped by others.
job::Job deep_job() {
  job::Job job = digits_job();
  job.model.layers = *parse_json(
      R"([{"kind": "dense", "out": 20, "activation": "relu"}, {"kind": "batch_norm"},
          {"kind": "residual", "layers": [{"kind": "dense", "out": 20, "activation": "tanh"}]},
          {"kind": "residual", "layers": [{"kind": "dense", "out": 20, "activation": "relu"}]},
          {"kind": "dense", "out": 12, "activation": "relu"}, {"kind": "classifier"}])",
      "layers");
  return job;
}

TEST_F(MeshApply, ARunOfStagesIsJudgedOnAnyMesh) {
  job::Job job = deep_job();
  job.parallel.mesh = "data=2,stage=2";
  job.options.set(job::kSegments.name, std::int64_t{4});
  job.options.set(job::kMicroBatches.name, std::int64_t{2});
  job::take_workers_of_mesh(job, false);
  const record::Summary trained = train("run", job);
  const apply::Score alone = score_alone("run");
  EXPECT_EQ(alone.loss, trained.test_loss);
  EXPECT_EQ(alone.accuracy, trained.test_accuracy);
  for (const char* mesh : {"stage=2", "stage=3", "stage=4", "stage=5", "data=2,stage=2"})
    EXPECT_EQ(score_on("run", mesh).loss, alone.loss) << mesh;
  for (const char* mesh : {"model=2", "stage=3,model=2", "data=2,stage=2,model=2"}) {
    SCOPED_TRACE(mesh);
    expect_close(score_on("run", mesh), alone);
  }
}

TEST_F(MeshApply, AMeshLikeTheOneOfTrainingGivesTheBitsOfTraining) {
  job::Job job = digits_job();
  job.parallel.workers = 1;
  job.parallel.mesh = "data=2,model=2";
  job.options.set(job::kStyle.name, "tensor");
  job::take_workers_of_mesh(job, false);
  const record::Summary trained = train("run", job);
  for (const char* mesh : {"data=2,model=2", "model=2"}) {
    const apply::Score score = score_on("run", mesh);
    EXPECT_EQ(score.loss, trained.test_loss) << mesh;
    EXPECT_EQ(score.accuracy, trained.test_accuracy) << mesh;
  }
  expect_close(score_on("run", "model=3"), score_alone("run"));
  EXPECT_NEAR(score_alone("run").loss, trained.test_loss, 1e-5);
}

TEST_F(MeshApply, PredictionsComeToTheFirstRank) {
  train("run", digits_job());
  std::vector<apply::Prediction> alone;
  const apply::LoadedModel model = load("run");
  run([&](Runtime& rt) { return expect_ok(classify_into(rt, model, 57, &alone)); });
  ASSERT_EQ(alone.size(), 57U);
  for (const char* mesh : {"data=2", "model=2", "data=2,model=2", "stage=2", "data=2,stage=2,model=2"}) {
    SCOPED_TRACE(mesh);
    std::vector<apply::Prediction> got;
    expect_all_ok(on_mesh("run", mesh, [&](Runtime& rt, const apply::LoadedModel& part) {
      return classify_into(rt, part, 57, part.part->is_first() ? &got : nullptr);
    }));
    ASSERT_EQ(got.size(), alone.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].name, alone[i].name);
      EXPECT_EQ(got[i].label, alone[i].label);
      EXPECT_EQ(got[i].best, alone[i].best);
      EXPECT_EQ(got[i].second, alone[i].second);
      EXPECT_NEAR(got[i].probability, alone[i].probability, 1e-5);
      EXPECT_NEAR(got[i].second_probability, alone[i].second_probability, 1e-5);
    }
  }
}

TEST_F(MeshApply, ReconstructionsComeToTheFirstRank) {
  train("run", testing::autoencoder_job());
  apply::Reconstructions alone;
  const apply::LoadedModel model = load("run");
  run([&](Runtime& rt) { return expect_ok(rebuild_into(rt, model, &alone)); });
  for (const char* mesh : {"data=2", "data=2,model=2", "stage=2", "data=2,stage=2"}) {
    apply::Reconstructions got;
    expect_all_ok(on_mesh("run", mesh, [&](Runtime& rt, const apply::LoadedModel& part) {
      return rebuild_into(rt, part, part.part->is_first() ? &got : nullptr);
    }));
    EXPECT_EQ(got.names, alone.names);
    EXPECT_EQ(got.originals, alone.originals);
    EXPECT_THAT(got.errors, ::testing::Pointwise(::testing::DoubleNear(1e-4), alone.errors)) << mesh;
    EXPECT_THAT(got.rebuilt, ::testing::Pointwise(::testing::FloatNear(1e-4F), alone.rebuilt)) << mesh;
  }
}

TEST_F(MeshApply, ATextIsTheSameOnEveryRank) {
  write("text.txt", testing::small_text());
  for (const char* name : {"char-lstm", "char-gpt"}) {
    job::Job job = testing::text_job(path("text.txt"));
    job.model.name = name;
    job.model.options = {{"layers", 1}, {"width", 12}, {"dropout", 0}};
    if (job.model.name == "char-gpt") job.model.options["heads"] = 2;
    train(name, job);
    std::string alone;
    const apply::LoadedModel model = load(name);
    run([&](Runtime& rt) { return expect_ok(go_on_into(rt, model, &alone)); });
    EXPECT_EQ(alone.size(), 20U);
    for (const char* mesh : {"model=2", "stage=2", "stage=3", "stage=2,model=2"}) {
      std::vector<std::string> texts(static_cast<std::size_t>(mesh_from(mesh).num_ranks()));
      expect_all_ok(on_mesh(name, mesh, [&](Runtime& rt, const apply::LoadedModel& part) {
        return go_on_into(rt, part, &texts[static_cast<std::size_t>(part.part->group().rank())]);
      }));
      EXPECT_THAT(texts, ::testing::Each(alone)) << name << " on " << mesh;
    }
  }
}

job::Job wide_job() {
  job::Job job = digits_job();
  job.model.name = "mlp";
  job.train.steps = 1;
  return job;
}

TEST_F(MeshApply, NoRankHoldsTheWholeModel) {
  train("run", wide_job());
  std::int64_t whole = 0;
  for (const apply::LoadedModel model = load("run"); const std::string& name : model.variables->names())
    whole += static_cast<std::int64_t>(model.variables->get(name)->type().num_bytes());
  std::vector<std::int64_t> held(4);
  const UseModel hold = [&](Runtime&, const apply::LoadedModel& part) -> Task<Status> {
    std::int64_t& own = held[static_cast<std::size_t>(part.part->group().rank())];
    for (const std::string& name : part.variables->names())
      own += static_cast<std::int64_t>(part.variables->get(name)->type().num_bytes());
    co_return Status();
  };
  const auto most_on = [&](const char* mesh) {
    return testing::most_bytes_of([&] { expect_all_ok(on_mesh("run", mesh, hold)); });
  };
  const std::int64_t cut = most_on("model=4");
  for (const std::int64_t own : held) EXPECT_LT(own, whole * 30 / 100);
  EXPECT_LT(cut, whole * 130 / 100) << "all of them together";
  held.assign(4, 0);
  const std::int64_t staged = most_on("stage=2");
  EXPECT_EQ(held[0] + held[1], whole);
  EXPECT_GT(held[0], 0);
  EXPECT_GT(held[1], 0);
  EXPECT_LT(staged, whole * 130 / 100);
  EXPECT_GE(most_on("data=4"), whole * 4) << "replicas do hold it";
}

TEST_F(MeshApply, AFailureOfOneRankEndsAllAndNamesIt) {
  train("run", digits_job());
  const auto fail = [](Runtime& rt, const apply::LoadedModel& part) -> Task<Status> {
    if (part.part->group().rank() == 3) co_return error(Code::kExhausted, "[test] no memory left");
    co_return co_await score_into(rt, part, nullptr);
  };
  const std::vector<Status> ranks = on_mesh("run", "data=2,model=2", fail);
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_THAT(ranks[r].message(), HasSubstr("rank 3 (data 1, model 1)"));
    EXPECT_THAT(ranks[r].message(), HasSubstr("no memory left"));
  }
  EXPECT_EQ(ranks[3].code(), Code::kExhausted);
  for (const Status& rank : on_mesh("run", "stage=2,model=2", fail))
    EXPECT_THAT(rank.message(), HasSubstr("no memory left"));
}

TEST_F(MeshApply, MoreStagesThanLayersAreRefusedBeforeTheStart) {
  train("run", deep_job());
  const apply::LoadedModel model = load("run");
  EXPECT_TRUE(apply::check_cut(model, mesh_from("stage=6")).ok());
  EXPECT_THAT(apply::check_cut(model, mesh_from("stage=7")).message(), HasSubstr("use 6 stages or fewer"));
}

TEST_F(MeshApply, RanksThatSeeDifferentCheckpointsAreRefused) {
  job::Job job = digits_job();
  job.train.checkpoint_steps = 3;
  train("run", job);
  const parallel::Mesh mesh = mesh_from("model=2");
  const UseModel use = [](Runtime& rt, const apply::LoadedModel& part) {
    return score_into(rt, part, nullptr);
  };
  const auto ranks = start::run_mesh_threads(mesh, [&](int rank) {
    apply::ModelSource source;
    source.path = path("run");
    if (rank == 1) source.verified = path("run/checkpoints/step-000000003");
    return std::make_unique<PartUser>(source, mesh, use);
  });
  for (const Status& rank : ranks) EXPECT_THAT(rank.message(), HasSubstr("is not what the first rank reads"));
}

}  // namespace
}  // namespace trireme::train
