#include "trireme/model/zoo.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace trireme::model {
namespace {

const ModelInput kDigits{Shape{1, 28, 28}, 10};

std::int64_t num_elems(const ModelGraphs& m) {
  std::int64_t n = 0;
  for (const Parameter& p : m.parameters) n += p.type.shape.num_elems();
  return n;
}

std::map<std::string, int> count_ops(const graph::Graph& g) {
  std::map<std::string, int> counts;
  for (std::int32_t i = 0; i < g.size(); ++i) ++counts[std::string(g.node(i).def->name)];
  return counts;
}

// Where a number is nobody's, it is counted by hand.
const std::map<std::string, std::int64_t> kCounts = {
    {"linear", 784 * 10 + 10},
    {"mlp", 784 * 256 + 256 + 256 * 10 + 10},
    {"lenet", 16 * 25 + 16 + 32 * 16 * 25 + 32 + 32 * 7 * 7 * 128 + 128 + 128 * 10 + 10},
    {"mnist-cnn", 1'663'370},      // the network of the TensorFlow tutorial on MNIST
    {"mnist-mlp", 669'706},        // Keras' example mnist_mlp
    {"lenet5", 61'706},            // LeCun et al. 1998 with all maps connected
    {"speech-42m", 41'777'152},    // Dean et al. 2012: 42 million; 440-2560x4-8192 with biases
    {"alexnet", 61'100'840},       // torchvision 0.2x, alexnet
    {"alexnet-2012", 60'965'224},  // Caffe's bvlc_alexnet; the paper says 60 million
    {"vgg11", 132'863'336},        // torchvision; the paper's table 2: 133, 138 and 144 million
    {"vgg16", 138'357'544},
    {"vgg19", 143'667'240},
    {"googlenet", 6'998'552},  // Caffe's bvlc_googlenet without loss1 and loss2
    {"resnet18", 11'689'512},  // torchvision
    {"resnet50", 25'557'032},
    {"gpt2-124m", 124'439'808},  // the released checkpoint "gpt2"
    {"char-lstm", 65 * 256 + 2 * (1024 * 512 + 2048) + 256 * 65 + 65},
    {"char-gpt", 65 * 256 + 128 * 256 + 4 * (12 * 256 * 256 + 13 * 256) + 2 * 256},
    {"autoencoder", 784 * 256 + 256 + 256 * 784 + 784},
    {"local-net-1700m", 1'707'502'672},
    {"cots-hpc", 11'243'889'307},  // the paper: 11.2 billion
    {"local-net", 28 * 28 * 8 * (25 + 1) + 14 * 14 * 8 * (8 * 25 + 1) + 8 * 49 * 10 + 10},
};

TEST(Zoo, ModelsHaveAsManyParametersAsPublished) {
  EXPECT_EQ(zoo().size(), kCounts.size()) << "count the new model's parameters here";
  for (const ZooRow& row : zoo()) {
    const Result<ModelGraphs> model = build_model(row.name, row.input(), 2);
    ASSERT_TRUE(model.ok()) << row.name << ": " << model.status().to_string();
    ASSERT_TRUE(kCounts.contains(row.name)) << row.name;
    EXPECT_EQ(num_elems(*model), kCounts.at(row.name)) << row.name;
  }
}

TEST(Zoo, DescriptionsGiveTheRightCounts) {
  int counted = 0;
  for (const ZooRow& row : zoo()) {
    const std::string doc = row.doc;
    if (doc.find(" parameters") == std::string::npos) continue;
    const std::string plain = std::to_string(kCounts.at(row.name));
    std::string digits;
    for (std::size_t at = 0; at < plain.size(); ++at) {
      if (at > 0 && (plain.size() - at) % 3 == 0) digits += ',';
      digits += plain[at];
    }
    EXPECT_NE(doc.find(digits + " parameters"), std::string::npos) << doc;
    ++counted;
  }
  EXPECT_GT(counted, 12);
}

TEST(Zoo, NamesAreUniqueAndDescribed) {
  std::set<std::string> names;
  for (const ZooRow& row : zoo()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_GT(std::string(row.doc).size(), 10U) << row.name;
  }
}

TEST(Zoo, AnUnknownModelIsRefusedWithTheNamesThatExist) {
  const Status status = build_model("resnet-9000", kDigits, 4).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("'resnet-9000'"), std::string::npos);
  for (const ZooRow& row : zoo()) EXPECT_NE(status.message().find(row.name), std::string::npos) << row.name;
}

TEST(Zoo, APictureTooSmallForTheModelIsAnErrorNotACrash) {
  const Status status = build_model("lenet", {Shape{1, 1, 1}, 10}, 4).status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("too small for 'lenet'"), std::string::npos) << status.message();
}

TEST(Zoo, EveryParameterIsAVariableOfBothGraphsWithAGradientOfItsType) {
  for (const ZooRow& row : zoo()) {
    const ModelGraphs m = *build_model(row.name, row.input(), 3);
    EXPECT_EQ(m.train.variables().size(), m.parameters.size()) << row.name;
    EXPECT_EQ(m.eval.variables().size(), m.parameters.size() + m.statistics.size()) << row.name;
    for (const Statistic& stat : m.statistics) {
      EXPECT_EQ(m.eval.type(*m.eval.find_variable(stat.name)), stat.type) << stat.name;
      EXPECT_EQ(m.train.type(*m.train.find_output("stat:" + stat.name)), stat.type) << stat.name;
    }
    for (const Parameter& p : m.parameters) {
      for (const graph::Graph* g : {&m.train, &m.eval}) {
        const auto variable = g->find_variable(p.name);
        ASSERT_TRUE(variable.has_value()) << p.name;
        EXPECT_EQ(g->type(*variable), p.type) << p.name;
      }
      const auto grad = m.train.find_output("grad:" + p.name);
      ASSERT_TRUE(grad.has_value()) << p.name;
      EXPECT_EQ(m.train.type(*grad), p.type) << p.name;
      EXPECT_FALSE(m.eval.find_output("grad:" + p.name).has_value()) << p.name;
    }
  }
}

TEST(Zoo, GraphsTakeAndGiveWhatTheHeaderSays) {
  for (const ZooRow& row : zoo()) {
    const ModelGraphs m = *build_model(row.name, row.input(), 5);
    const ModelInput in = row.input();
    std::vector<std::int64_t> dims{5};
    for (const std::int64_t d : in.sample_shape.dims()) dims.push_back(d);
    const Shape batch(dims);
    for (const graph::Graph* g : {&m.train, &m.eval}) {
      EXPECT_TRUE(graph::verify(*g).ok());
      const TensorType x{in.task == ModelTask::kLanguage ? DType::kI32 : DType::kF32, batch};
      EXPECT_EQ(g->type(*g->find_input(in.task == ModelTask::kLanguage ? "tokens" : "images")), x);
      ASSERT_EQ(g->find_input("labels").has_value(), in.task != ModelTask::kReconstruct);
      const TensorType labels{DType::kI32, in.task == ModelTask::kLanguage ? batch : Shape{5}};
      if (const auto found = g->find_input("labels")) {
        EXPECT_EQ(g->type(*found), labels);
      }
      EXPECT_EQ(g->type(*g->find_input("weights")), (TensorType{DType::kF32, Shape{5}}));
      for (const char* scalar : {"loss", "correct"}) {
        const auto value = g->find_output(scalar);
        ASSERT_TRUE(value.has_value()) << scalar;
        EXPECT_EQ(g->type(*value).shape.rank(), 0) << scalar;
      }
    }
  }
}

TEST(Zoo, EvaluationHasNoDropoutAndNoRandomInputs) {
  bool some_model_drops = false;
  for (const ZooRow& row : zoo()) {
    const ModelGraphs m = *build_model(row.name, row.input(), 2);
    EXPECT_EQ(count_ops(m.eval).count("dropout"), 0U) << row.name;
    for (const char* input : {"sample_ids", "key", "step"})
      EXPECT_FALSE(m.eval.find_input(input).has_value()) << row.name << " " << input;
    const bool drops = count_ops(m.train).count("dropout") > 0;
    some_model_drops |= drops;
    for (const char* input : {"sample_ids", "key", "step"})
      EXPECT_EQ(m.train.find_input(input).has_value(), drops) << row.name << " " << input;
  }
  EXPECT_TRUE(some_model_drops);
}

TEST(Zoo, EvaluationGivesOneRowOfLogitsPerSampleOrToken) {
  for (const ZooRow& row : zoo()) {
    const ModelInput in = row.input();
    const ModelGraphs m = *build_model(row.name, in, 3);
    const Shape logits = m.eval.type(*m.eval.find_output("logits")).shape;
    Shape expected{3, in.num_classes};
    if (in.task == ModelTask::kLanguage) expected.set(0, 3 * in.sample_shape[0]);
    if (in.task == ModelTask::kReconstruct) expected = m.eval.type(*m.eval.find_input("images")).shape;
    EXPECT_EQ(logits, expected) << row.name;
  }
}

TEST(Zoo, OptionsChangeAModelAndUnknownOnesAreRefused) {
  const ModelInput in{Shape{16}, 30, ModelTask::kLanguage};
  const ModelGraphs m = *build_model("char-gpt", in, 2, {{{"width", 8}, {"layers", 1}, {"heads", 2}}});
  EXPECT_EQ(num_elems(m), 30 * 8 + 16 * 8 + 12 * 64 + 13 * 8 + 2 * 8);
  const Status status = build_model("char-gpt", in, 2, {{{"depth", 3}}}).status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_NE(status.message().find("'depth'"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("width, layers, heads, dropout"), std::string::npos) << status.message();
}

TEST(Zoo, EverySecondBlockOfAGptMayMixExperts) {
  const ModelInput in{Shape{16}, 30, ModelTask::kLanguage};
  const ModelOptions options{{{"width", 8}, {"layers", 3}, {"heads", 2}, {"experts", 4}}};
  const ModelGraphs m = *build_model("char-gpt", in, 2, options);
  const std::int64_t attention = 4 * 64 + 4 * 8, norms = 4 * 8, mlp = 8 * 64 + 5 * 8;
  EXPECT_EQ(num_elems(m), 30 * 8 + 16 * 8 + 3 * (attention + norms) + 2 * mlp + 4 * (8 + mlp) + 2 * 8);
  EXPECT_TRUE(m.train.find_variable("block1/experts/up/weight").has_value());
  const Status status = build_model("char-gpt", in, 2, {{{"layers", 1}, {"experts", 4}}}).status();
  EXPECT_NE(status.message().find("got 1 layers, expected 2 or more"), std::string::npos) << status.message();
}

TEST(Zoo, AModelOfTextsRefusesPicturesAndTheOtherWayRound) {
  EXPECT_NE(build_model("char-gpt", kDigits, 2).status().message().find("is made to continue texts"),
            std::string::npos);
  const ModelInput text{Shape{16}, 30, ModelTask::kLanguage};
  EXPECT_NE(build_model("lenet", text, 2).status().message().find("is made to classify samples"),
            std::string::npos);
}

TEST(Zoo, TwoBuildsAreEqualTextAndParametersComeInOrderOfUse) {
  for (const ZooRow& row : zoo()) {
    const ModelGraphs a = *build_model(row.name, row.input(), 4), b = *build_model(row.name, row.input(), 4);
    EXPECT_EQ(a.train.to_text(), b.train.to_text());
    EXPECT_EQ(a.eval.to_text(), b.eval.to_text());
  }
  std::vector<std::string> names;
  const ModelGraphs lenet = *build_model("lenet", kDigits, 4);
  for (const Parameter& p : lenet.parameters) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{"conv1/weight", "conv1/bias", "conv2/weight", "conv2/bias",
                                             "fc1/weight", "fc1/bias", "fc2/weight", "fc2/bias"}));
}

TEST(Zoo, ParametersDoNotDependOnTheBatch) {
  for (const ZooRow& row : zoo()) {
    const ModelGraphs a = *build_model(row.name, row.input(), 1),
                      b = *build_model(row.name, row.input(), 200);
    ASSERT_EQ(a.parameters.size(), b.parameters.size());
    for (std::size_t i = 0; i < a.parameters.size(); ++i) {
      EXPECT_EQ(a.parameters[i].name, b.parameters[i].name);
      EXPECT_EQ(a.parameters[i].type, b.parameters[i].type);
      EXPECT_EQ(a.parameters[i].bound, b.parameters[i].bound);
    }
  }
}

std::vector<float> initial(const Parameter& p, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(p.type.shape.num_elems()), 99.0F);
  initialise(p, seed, values);
  return values;
}

TEST(Initialise, GivesTheSameBoundedValuesEveryTime) {
  const ModelGraphs m = *build_model("lenet", kDigits, 2);
  for (const Parameter& p : m.parameters) {
    const auto values = initial(p, 1);
    EXPECT_EQ(values, initial(p, 1));
    double sum = 0, squares = 0;
    for (const float v : values) {
      EXPECT_GE(v, -static_cast<float>(p.bound));
      EXPECT_LE(v, static_cast<float>(p.bound));
      sum += v;
      squares += static_cast<double>(v) * v;
    }
    if (p.bound == 0) {
      EXPECT_EQ(squares, 0) << p.name;
      continue;
    }
    EXPECT_NE(values, initial(p, 2)) << "another seed";
    const auto n = static_cast<double>(values.size());
    EXPECT_NEAR(sum / n, 0, 5 * p.bound / std::sqrt(3 * n)) << p.name;
    EXPECT_NEAR(squares / n, p.bound * p.bound / 3, p.bound * p.bound / std::sqrt(n)) << p.name;
  }
}

TEST(Initialise, BoundsFollowTheFanIn) {
  const ModelGraphs m = *build_model("lenet", kDigits, 2);
  EXPECT_DOUBLE_EQ(m.parameters[0].bound, std::sqrt(6.0 / 25));
  EXPECT_EQ(m.parameters[1].bound, 0);
  EXPECT_DOUBLE_EQ(m.parameters[2].bound, std::sqrt(6.0 / (16 * 25)));
  EXPECT_DOUBLE_EQ(m.parameters[4].bound, std::sqrt(6.0 / (32 * 49)));
}

TEST(Initialise, DependsOnTheNameAndTheElementOnly) {
  const Parameter a{"a/weight", {DType::kF32, Shape{10}}, 1.0}, b{"b/weight", {DType::kF32, Shape{10}}, 1.0},
      longer{"a/weight", {DType::kF32, Shape{1000}}, 1.0};
  EXPECT_NE(initial(a, 1), initial(b, 1));
  const auto few = initial(a, 1);
  auto many = initial(longer, 1);
  many.resize(10);
  EXPECT_EQ(few, many) << "element i is the same in a tensor of any size";
}

}  // namespace
}  // namespace trireme::model
