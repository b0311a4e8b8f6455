// A job in the words of the other modules.
#include "trireme/job/job_parts.h"

#include <gtest/gtest.h>

namespace trireme::job {
namespace {

using model::ModelTask;

Job job_with(const std::vector<std::string>& set) {
  Job job;
  for (const std::string& assignment : set) {
    const Status status = set_job_key(job, assignment);
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  return job;
}

TEST(OptimizerSpec, HasOnlyWhatTheJobSets) {
  const model::OptimizerSpec spec = optimizer_spec(Job());
  EXPECT_EQ(spec.kind, "momentum");
  EXPECT_TRUE(spec.attrs.items().empty());
  EXPECT_EQ(spec.no_decay, model::OptimizerSpec().no_decay);
  EXPECT_EQ(spec.initial_sum, 0);
  EXPECT_EQ(spec.clip_norm, 0);
  EXPECT_FALSE(spec.correct_momentum);
}

// Every attribute of every optimiser's op is a key of the same name that reaches it, but the one that makes
// the kind.
TEST(OptimizerSpec, EveryAttributeOfEveryKindCanBeSet) {
  for (const model::OptimizerRow& row : model::optimizer_table()) {
    for (const op::AttrSpec& attr : row.op->attrs) {
      if (attr.name == "fixed_after") continue;  // of some parameters only: see below
      const bool number = std::holds_alternative<double>(attr.default_value);
      // Nesterov's form takes no other dampening than none.
      const double value = row.fixed != nullptr && attr.name == "dampening" ? 0 : 0.25;
      const bool on = !number && !std::get<bool>(attr.default_value);
      const std::string text = number ? fmt::format("{}", value) : fmt::format("{}", on);
      const Job job = job_with({fmt::format("train.optimizer.kind={}", row.name),
                                fmt::format("train.optimizer.{}={}", attr.name, text)});
      const model::OptimizerSpec spec = optimizer_spec(job);
      ASSERT_EQ(spec.attrs.items().size(), 1U) << row.name << " " << attr.name;
      EXPECT_EQ(spec.attrs.items()[0].first, attr.name);
      EXPECT_EQ(spec.attrs.items()[0].second, number ? op::AttrValue(value) : op::AttrValue(on)) << attr.name;
      EXPECT_TRUE(check_job(job).ok()) << check_job(job).to_string();
      const model::Parameter p{"w/weight", {DType::kF32, {3}}};
      EXPECT_TRUE(model::build_update(spec, {&p, 1}).ok()) << row.name << " " << attr.name;
    }
  }
}

TEST(OptimizerSpec, CarriesWhatIsNoAttribute) {
  const Job job = job_with({"train.optimizer.kind=adagrad", "train.optimizer.initial_sum=0.5",
                            "train.optimizer.clip_norm=2", "train.optimizer.correct_momentum=true",
                            "train.optimizer.no_decay=bias,beta"});
  const model::OptimizerSpec spec = optimizer_spec(job);
  EXPECT_EQ(spec.initial_sum, 0.5);
  EXPECT_EQ(spec.clip_norm, 2);
  EXPECT_EQ(
      optimizer_spec(job_with({"train.optimizer.kind=adam", "train.optimizer.fixed_after=5"})).fixed_after,
      5);
  EXPECT_TRUE(spec.correct_momentum);
  EXPECT_EQ(spec.no_decay, (std::vector<std::string>{"bias", "beta"}));
  EXPECT_FALSE(model::decays(spec, "fc1/bias"));
  EXPECT_TRUE(model::decays(spec, "bn1/scale"));
}

TEST(PeakRate, IsThatOfTheKindUnlessSet) {
  const auto rate = [](const char* kind) {
    return peak_rate(job_with({fmt::format("train.optimizer.kind={}", kind)}).train.optimizer);
  };
  for (const char* kind : {"sgd", "momentum", "nesterov", "lars"}) EXPECT_EQ(rate(kind), 0.1) << kind;
  for (const char* kind : {"adagrad", "rmsprop"}) EXPECT_EQ(rate(kind), 0.01) << kind;
  for (const char* kind : {"adam", "adamw"}) EXPECT_EQ(rate(kind), 0.001) << kind;
  EXPECT_EQ(peak_rate(job_with({"train.optimizer.kind=adam", "train.optimizer.lr=0.5"}).train.optimizer),
            0.5);
}

TEST(ScheduleOf, TakesEveryKeyOfTheSchedule) {
  const model::Schedule s = schedule_of(
      job_with({"train.batch=512", "train.optimizer.schedule=step", "train.optimizer.lr=0.5",
                "train.optimizer.warmup=0.2", "train.optimizer.warmup_start=0.3",
                "train.optimizer.final_share=0.4", "train.optimizer.factor=0.6", "train.optimizer.power=2",
                "train.optimizer.start_divisor=7", "train.optimizer.milestones=0.5,0.75",
                "train.optimizer.reference_batch=256", "train.optimizer.max_batch_multiplier=8"}));
  EXPECT_EQ(s.kind, "step");
  EXPECT_EQ(s.lr, 0.5);
  EXPECT_EQ(s.warmup, 0.2);
  EXPECT_EQ(s.warmup_start, 0.3);
  EXPECT_EQ(s.final_share, 0.4);
  EXPECT_EQ(s.factor, 0.6);
  EXPECT_EQ(s.power, 2);
  EXPECT_EQ(s.start_divisor, 7);
  EXPECT_EQ(s.milestones, (std::vector<double>{0.5, 0.75}));
  EXPECT_EQ(s.batch, 512);
  EXPECT_EQ(s.reference_batch, 256);
  EXPECT_EQ(s.max_batch_multiplier, 8);
}

TEST(ScheduleOf, TheDefaultRisesToItsPeakAndFallsToNothing) {
  const model::Schedule s = schedule_of(Job());
  EXPECT_TRUE(model::check_schedule(s).ok());
  EXPECT_DOUBLE_EQ(model::schedule_at(s, 0, 1000).lr, 0.1 * 0.05);
  EXPECT_DOUBLE_EQ(model::schedule_at(s, 50, 1000).lr, 0.1);
  EXPECT_NEAR(model::schedule_at(s, 1000, 1000).lr, 0, 1e-12);
}

TEST(TaskOf, IsAsTheModelAndTheDataSay) {
  const auto task = [](const std::vector<std::string>& set) { return task_of(job_with(set)); };
  EXPECT_EQ(task({}), ModelTask::kClassify);
  EXPECT_EQ(task({"data.kind=text", "model.name=char-gpt"}), ModelTask::kLanguage);
  EXPECT_EQ(task({"data.kind=text", "model.layers=[{kind='classifier'}]"}), ModelTask::kLanguage);
  EXPECT_EQ(task({"model.name=autoencoder"}), ModelTask::kReconstruct);
  EXPECT_EQ(task({"model.name=autoencoder", "model.task=classify"}), ModelTask::kClassify);
  EXPECT_EQ(task({"model.layers=[{kind='classifier'}]"}), ModelTask::kClassify);
  EXPECT_EQ(task({"model.layers=[{kind='classifier'}]", "model.task=reconstruct"}), ModelTask::kReconstruct);
  EXPECT_EQ(task({"model.name=autoencoder", "model.layers=[{kind='classifier'}]"}), ModelTask::kClassify)
      << "the name does not count beside layers";
  EXPECT_EQ(task({"model.name=no-such-model"}), ModelTask::kClassify);
}

TEST(DataSpec, TakesEveryKeyOfTheData) {
  const data::DataSpec d =
      data_spec(job_with({"data.kind=csv",          "data.path=p",          "data.seed=7",
                          "data.limit_train=8",     "data.limit_test=9",    "data.test=0.2",
                          "data.validation=0.3",    "data.augment.shift=4", "data.augment.crop=0.5",
                          "data.augment.flip=true", "data.shape=3x4x5",     "data.label=kind",
                          "data.header=yes",        "data.separator=;",     "data.tokens=bytes",
                          "data.context=16",        "data.stride=3",        "data.classes=11",
                          "data.num_train=12",      "data.num_test=13"}),
                "cache");
  EXPECT_EQ(d.kind, "csv");
  EXPECT_EQ(d.path, "p");
  EXPECT_EQ(d.seed, 7U);
  EXPECT_EQ(d.limit_train, 8);
  EXPECT_EQ(d.limit_test, 9);
  EXPECT_EQ(d.test, 0.2);
  EXPECT_EQ(d.validation, 0.3);
  EXPECT_EQ(d.augment.shift, 4);
  EXPECT_EQ(d.augment.crop, 0.5);
  EXPECT_TRUE(d.augment.flip);
  EXPECT_EQ(d.options, (OptionValues{{"shape", "3x4x5"},
                                     {"label", "kind"},
                                     {"header", "yes"},
                                     {"separator", ";"},
                                     {"tokens", "bytes"},
                                     {"context", 16},
                                     {"stride", 3},
                                     {"classes", 11},
                                     {"num_train", 12},
                                     {"num_test", 13}}));
  EXPECT_EQ(d.cache_dir, "cache");
  EXPECT_TRUE(d.labels);
}

TEST(DataSpec, SamplesThatAreTheirOwnTargetsNeedNoLabels) {
  EXPECT_FALSE(data_spec(job_with({"model.name=autoencoder"}), "").labels);
  EXPECT_FALSE(data_spec(job_with({"model.task=reconstruct"}), "").labels);
}

TEST(ModelOptions, AreNumbers) {
  const Result<model::ModelOptions> options =
      model_options(job_with({"model.options={width=64, dropout=0.5}"}));
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->get_int("width"), 64);
  EXPECT_EQ(options->get("dropout"), 0.5);
  const Status status = model_options(job_with({"model.options={width=true}"})).status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_NE(status.message().find("'width' is true, expected a number"), std::string::npos)
      << status.message();
}

TEST(ModelInput, IsTheShapeOfTheDataAndNeedsLabelsToClassify) {
  data::Dataset set;
  set.source = "numbers.npy";
  set.sample_shape = Shape{3, 8, 8};
  set.num_classes = 7;
  set.label_kind = data::Labels::kClass;
  const Result<model::ModelInput> input = model_input(Job(), set);
  ASSERT_TRUE(input.ok());
  EXPECT_EQ(input->sample_shape, (Shape{3, 8, 8}));
  EXPECT_EQ(input->num_classes, 7);
  EXPECT_EQ(input->task, ModelTask::kClassify);
  set.label_kind = data::Labels::kNone;
  const Status status = model_input(Job(), set).status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_NE(status.message().find("numbers.npy: a classifier needs labels"), std::string::npos)
      << status.message();
  EXPECT_TRUE(model_input(job_with({"model.task=reconstruct"}), set).ok());
}

TEST(BuildJobModel, TakesLayersBeforeTheName) {
  const model::ModelInput input{Shape{1, 28, 28}, 10};
  const auto by_name = build_job_model(Job(), input, 2);
  const auto by_layers =
      build_job_model(job_with({"model.layers=[{kind='classifier', name='out'}]"}), input, 2);
  ASSERT_TRUE(by_name.ok() && by_layers.ok());
  EXPECT_GT(by_name->parameters.size(), 2U);
  ASSERT_EQ(by_layers->parameters.size(), 2U);
  EXPECT_EQ(by_layers->parameters[0].name, "out/weight");
}

TEST(BuildJobModel, FrozenLayersHaveNoGradient) {
  const model::ModelInput input{Shape{1, 28, 28}, 10};
  const auto whole = build_job_model(Job(), input, 2),
             frozen = build_job_model(job_with({"model.freeze=conv1,conv2"}), input, 2);
  ASSERT_TRUE(whole.ok() && frozen.ok()) << frozen.status().to_string();
  EXPECT_EQ(frozen->frozen.size(), 4U);
  EXPECT_EQ(frozen->parameters.size(), whole->parameters.size() - 4);
  EXPECT_FALSE(frozen->train.find_output("grad:conv1/weight").has_value());
  const Status unknown = build_job_model(job_with({"model.freeze=conv9"}), input, 2).status();
  EXPECT_FALSE(unknown.ok());
  EXPECT_NE(unknown.message().find("conv9"), std::string::npos) << unknown.message();
}

TEST(BuildJobModel, HalfPrecisionTakesALossScaleOnlyForF16) {
  const model::ModelInput input{Shape{1, 28, 28}, 10};
  const auto has_scale = [&](const char* precision) {
    const auto graphs = build_job_model(job_with({fmt::format("train.precision={}", precision)}), input, 2);
    EXPECT_TRUE(graphs.ok());
    return graphs.ok() && graphs->train.find_input("loss_scale").has_value();
  };
  EXPECT_FALSE(has_scale("f32"));
  EXPECT_FALSE(has_scale("bf16"));
  EXPECT_TRUE(has_scale("f16"));
}

TEST(WaitsForAll, WhenAStepMustKnowSomethingAboutAllGradients) {
  EXPECT_FALSE(waits_for_all(Job()));
  EXPECT_FALSE(waits_for_all(job_with({"train.precision=bf16"})));
  EXPECT_TRUE(waits_for_all(job_with({"train.optimizer.clip_norm=1"})));
  EXPECT_TRUE(waits_for_all(job_with({"train.nan=skip"})));
  EXPECT_TRUE(waits_for_all(job_with({"train.precision=f16"})));
}

}  // namespace
}  // namespace trireme::job
