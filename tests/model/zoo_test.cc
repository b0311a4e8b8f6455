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

TEST(Zoo, ModelsHaveAsManyParametersAsOneCountsByHand) {
  const std::map<std::string, std::int64_t> expected = {
      {"linear", 784 * 10 + 10},
      {"mlp", 784 * 256 + 256 + 256 * 10 + 10},
      {"lenet", 16 * 25 + 16 + 32 * 16 * 25 + 32 + 32 * 7 * 7 * 128 + 128 + 128 * 10 + 10}};
  EXPECT_EQ(zoo().size(), expected.size()) << "count the new model's parameters here";
  for (const auto& [name, count] : expected) {
    const Result<ModelGraphs> model = build_model(name, kDigits, 4);
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    EXPECT_EQ(num_elems(*model), count) << name;
  }
}

TEST(Zoo, NamesAreUniqueAndDescribed) {
  std::set<std::string> names;
  for (const ZooRow& row : zoo()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_GT(std::string(row.doc).size(), 10U) << row.name;
  }
}

TEST(Zoo, AnUnknownModelIsRefusedWithTheNamesThatExist) {
  const Status status = build_model("resnet", kDigits, 4).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("'resnet'"), std::string::npos);
  for (const ZooRow& row : zoo()) EXPECT_NE(status.message().find(row.name), std::string::npos) << row.name;
}

TEST(Zoo, APictureTooSmallForTheModelIsAnErrorNotACrash) {
  const Status status = build_model("lenet", {Shape{1, 1, 1}, 10}, 4).status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("max_pool2d"), std::string::npos) << status.message();
}

TEST(Zoo, EveryParameterIsAVariableOfBothGraphsWithAGradientOfItsType) {
  for (const ZooRow& row : zoo()) {
    const ModelGraphs m = *build_model(row.name, kDigits, 3);
    EXPECT_EQ(m.train.variables().size(), m.parameters.size()) << row.name;
    EXPECT_EQ(m.eval.variables().size(), m.parameters.size()) << row.name;
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
    const ModelGraphs m = *build_model(row.name, kDigits, 5);
    for (const graph::Graph* g : {&m.train, &m.eval}) {
      EXPECT_TRUE(graph::verify(*g).ok());
      EXPECT_EQ(g->type(*g->find_input("images")), (TensorType{DType::kF32, Shape{5, 1, 28, 28}}));
      EXPECT_EQ(g->type(*g->find_input("labels")), (TensorType{DType::kI32, Shape{5}}));
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
    const ModelGraphs m = *build_model(row.name, kDigits, 2);
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

TEST(Zoo, TwoBuildsAreEqualTextAndParametersComeInOrderOfUse) {
  for (const ZooRow& row : zoo()) {
    const ModelGraphs a = *build_model(row.name, kDigits, 4), b = *build_model(row.name, kDigits, 4);
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
    const ModelGraphs a = *build_model(row.name, kDigits, 1), b = *build_model(row.name, kDigits, 200);
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
