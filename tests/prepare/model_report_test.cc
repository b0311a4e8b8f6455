#include "trireme/prepare/model_report.h"

#include <gtest/gtest.h>

#include "trireme/job/assume_input.h"
#include "trireme/job/job_parts.h"

namespace trireme::prepare {
namespace {

ModelReport report_of(const std::string& name, const model::ModelInput& input, std::int64_t batch,
                      int levels = 1) {
  job::Job job;
  job.model.name = name;
  const auto graphs = job::build_job_model(job, input, batch);
  EXPECT_TRUE(graphs.ok()) << graphs.status().to_string();
  auto report = report_model(*graphs, batch, levels);
  EXPECT_TRUE(report.ok()) << report.status().to_string();
  return *report;
}

const LayerReport& layer(const ModelReport& report, std::string_view name) {
  for (const LayerReport& l : report.layers)
    if (l.name == name) return l;
  ADD_FAILURE() << "no layer " << name;
  return report.layers.front();
}

double share(const ModelReport& report, std::string_view kind) {
  for (const WorkShare& s : report.shares)
    if (s.kind == kind) return s.flops / report.flops();
  ADD_FAILURE() << "no kind " << kind;
  return 0;
}

// 784-256-10 with relu, counted by hand for 3 samples.
TEST(ModelReport, LayersOfAnMlpHaveTheWorkAndBytesOfItsFormulas) {
  const ModelReport r = report_of("mlp", {Shape{1, 28, 28}, 10}, 3);
  const LayerReport& fc1 = layer(r, "fc1");
  EXPECT_EQ(fc1.parameters, 784 * 256 + 256);
  EXPECT_EQ(fc1.forward.flops, 3 * (2.0 * 784 * 256 + 256));   // product and bias
  EXPECT_EQ(fc1.backward.flops, 3 * (2.0 * 784 * 256 + 256));  // no gradient of the pictures
  EXPECT_EQ(fc1.output.to_string(), "f32[3, 256]");
  EXPECT_EQ(fc1.weights_bytes, 4 * (784 * 256 + 256));
  EXPECT_EQ(fc1.weight_grads_bytes, fc1.weights_bytes);
  const LayerReport& fc2 = layer(r, "fc2");
  EXPECT_EQ(fc2.forward.flops, 3 * (2.0 * 256 * 10 + 10));
  EXPECT_EQ(fc2.backward.flops, 3 * (2 * 2.0 * 256 * 10 + 10));
  EXPECT_EQ(fc2.activation_grads_bytes, 4 * 3 * 256);  // of what it reads
  EXPECT_EQ(layer(r, "relu").activations_bytes, 4 * 3 * 256);
  EXPECT_EQ(r.parameters, fc1.parameters + fc2.parameters);
}

TEST(ModelReport, LayersAddUpToTheWholeForEveryModelAndLevel) {
  for (const model::ZooRow& row : model::zoo()) {
    for (const int levels : {0, 1, 2}) {
      const ModelReport r = report_of(row.name, row.input(), 2, levels);
      double flops = 0, by_kind = 0;
      std::int64_t parameters = 0, weights = 0, grads = 0;
      for (const LayerReport& l : r.layers) {
        flops += l.forward.flops + l.backward.flops;
        parameters += l.parameters;
        weights += l.weights_bytes;
        grads += l.weight_grads_bytes;
      }
      for (const WorkShare& s : r.shares) by_kind += s.flops;
      EXPECT_NEAR(flops / r.flops(), 1, 1e-12) << row.name;
      EXPECT_NEAR(by_kind / r.flops(), 1, 1e-12) << row.name;
      EXPECT_EQ(parameters, r.parameters) << row.name;
      EXPECT_EQ(weights, 4 * r.parameters) << row.name;
      EXPECT_EQ(grads, 4 * r.parameters) << row.name;
      EXPECT_EQ(r.layers.back().name, "loss") << row.name;
      EXPECT_LE(r.path.flops, r.flops()) << row.name;
      EXPECT_GE(r.parallelism(), 1) << row.name;
    }
  }
}

TEST(ModelReport, WorkIsPerSampleAndDepthGrowsAtMostByLogarithmsOfTheBatch) {
  const ModelReport one = report_of("lenet", {Shape{1, 28, 28}, 10}, 1);
  const ModelReport many = report_of("lenet", {Shape{1, 28, 28}, 10}, 64);
  EXPECT_NEAR(many.flops_per_sample() / one.flops_per_sample(), 1, 0.01);
  EXPECT_EQ(many.path.ops, one.path.ops);
  EXPECT_LE(many.path.depth, one.path.depth + 6.0 * static_cast<double>(many.path.ops));
  EXPECT_GT(many.parallelism(), 32 * one.parallelism());
}

// matmul, bias_add, then loss and sum, or the gradients of loss and product.
TEST(ModelReport, TheLongestPathOfALinearModelHasFourOps) {
  EXPECT_EQ(report_of("linear", {Shape{1, 28, 28}, 10}, 4).path.ops, 4);
}

TEST(ModelReport, SharesTellConvolutionsFromFullyConnectedLayers) {
  // One weird trick (Krizhevsky 2014): convolutions have about 90 to 95 % of the work and 5 % of the weights.
  const ModelReport alexnet = report_of("alexnet-2012", (*model::find_model("alexnet-2012"))->input(), 8);
  EXPECT_GT(share(alexnet, "convolution"), 0.88);
  EXPECT_LT(share(alexnet, "convolution"), 0.97);
  EXPECT_GT(share(alexnet, "fully connected"), 0.03);
  const ModelReport mlp = report_of("mnist-mlp", {Shape{1, 28, 28}, 10}, 8);
  EXPECT_EQ(share(mlp, "convolution"), 0);
  EXPECT_GT(share(mlp, "fully connected"), 0.99);
  const ModelReport lstm = report_of("char-lstm", (*model::find_model("char-lstm"))->input(), 2);
  EXPECT_GT(share(lstm, "recurrent"), 0.9);
}

TEST(ModelReport, LevelsTellHowFinelyLayersAreCut) {
  const model::ModelInput input = (*model::find_model("char-gpt"))->input();
  const ModelReport coarse = report_of("char-gpt", input, 2), fine = report_of("char-gpt", input, 2, 2),
                    all = report_of("char-gpt", input, 2, 0);
  EXPECT_EQ(layer(coarse, "block0").parameters, 12 * 256 * 256 + 13 * 256);
  EXPECT_EQ(layer(fine, "block0/attention").parameters, 4 * 256 * 256 + 4 * 256);
  EXPECT_EQ(layer(all, "block0/attention/qkv").parameters, 3 * 256 * 256 + 3 * 256);
}

TEST(ModelReport, ALayersOutputIsWhatLaterLayersRead) {
  const ModelReport r = report_of("resnet18", {Shape{3, 32, 32}, 10}, 2);
  EXPECT_EQ(layer(r, "bn1").output.to_string(), "f32[2, 64, 16, 16]");  // not a statistic
  EXPECT_EQ(r.statistics, 9600);
}

// Gradients of a scaled loss are scaled back outside of any layer.
TEST(ModelReport, LossScalingBelongsToTheBackwardPassOfTheLoss) {
  job::Job job;
  job.train.precision = "f16";
  const auto graphs = job::build_job_model(job, {Shape{1, 28, 28}, 10}, 2);
  ASSERT_TRUE(graphs.ok());
  const auto report = report_model(*graphs, 2, 1);
  ASSERT_TRUE(report.ok());
  const ModelReport plain = report_of("lenet", {Shape{1, 28, 28}, 10}, 2);
  EXPECT_EQ(layer(*report, "conv1").output, layer(plain, "conv1").output);
  EXPECT_EQ(layer(*report, "conv1").weight_grads_bytes, layer(plain, "conv1").weight_grads_bytes);
  EXPECT_EQ(report->forward.flops, plain.forward.flops);
  EXPECT_GT(layer(*report, "loss").backward.flops, layer(plain, "loss").backward.flops);
}

TEST(ModelReport, FrozenLayersAreCountedApart) {
  job::Job job;
  job.model.freeze = {"conv1"};
  const auto graphs = job::build_job_model(job, {Shape{1, 28, 28}, 10}, 2);
  ASSERT_TRUE(graphs.ok());
  const auto report = report_model(*graphs, 2, 1);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->frozen, 16 * 25 + 16);
  EXPECT_EQ(layer(*report, "conv1").parameters, 0);
  EXPECT_GT(layer(*report, "conv1").weights_bytes, 0);
  EXPECT_EQ(layer(*report, "conv1").backward.flops, 0);
}

// ---- What is known without data
TEST(AssumeInput, IsWhatTheKindOfDataFixes) {
  job::Job job;
  EXPECT_EQ(job::assume_input(job, "", 0)->input.sample_shape, (Shape{1, 28, 28}));
  job.data.kind = "cifar";
  EXPECT_EQ(job::assume_input(job, "", 0)->input.sample_shape, (Shape{3, 32, 32}));
  EXPECT_EQ(job::assume_input(job, "", 0)->input.num_classes, 10);
  job.data.options.set("label", "fine");
  EXPECT_EQ(job::assume_input(job, "", 0)->input.num_classes, 100);
  job.data.kind = "synthetic";
  job.data.options.set("shape", "3x8x9");
  job.data.options.set("classes", 7);
  const auto synthetic = job::assume_input(job, "", 0);
  EXPECT_EQ(synthetic->input.sample_shape, (Shape{3, 8, 9}));
  EXPECT_EQ(synthetic->input.num_classes, 7);
  job.data.kind = "text";
  job.data.options.set("tokens", "bytes");
  job.data.options.set("context", 33);
  job.model.name = "char-gpt";
  const auto text = job::assume_input(job, "", 0);
  EXPECT_EQ(text->input.sample_shape, Shape{33});
  EXPECT_EQ(text->input.num_classes, 256);
  EXPECT_EQ(text->input.task, model::ModelTask::kLanguage);
}

TEST(AssumeInput, IsThePublishedOneWhereOnlyTheDataWouldTellAndWhatIsGivenWins) {
  job::Job job;
  job.data.kind = "images";
  job.model.name = "alexnet";
  const auto published = job::assume_input(job, "", 0);
  EXPECT_EQ(published->input.sample_shape, (Shape{3, 224, 224}));
  EXPECT_EQ(published->input.num_classes, 1000);
  EXPECT_EQ(published->from, "as published for alexnet");
  const auto given = job::assume_input(job, "3x96x96", 12);
  EXPECT_EQ(given->input.sample_shape, (Shape{3, 96, 96}));
  EXPECT_EQ(given->input.num_classes, 12);
}

TEST(AssumeInput, WhereNobodyKnowsTheShapeItIsAskedFor) {
  job::Job job;
  job.data.kind = "npy";
  job.model.layers = Json::array({{{"kind", "classifier"}}});
  const Status status = job::assume_input(job, "", 0).status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_NE(status.message().find("--shape"), std::string::npos) << status.message();
  EXPECT_TRUE(job::assume_input(job, "12", 3).ok());
  EXPECT_FALSE(job::assume_input(job, "12y", 3).ok());
}

}  // namespace
}  // namespace trireme::prepare
