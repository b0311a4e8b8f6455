#include "trireme/model/fine_tune.h"

#include <algorithm>

#include "tests/model/run.h"

namespace trireme::model {
namespace {

const ModelInput kDigits{Shape{1, 28, 28}, 10};

TEST(Freeze, TakesGradientsAwayAndKeepsTheOthersBits) {
  const ModelGraphs whole = *build_model("lenet", kDigits, 2);
  const Result<ModelGraphs> part = freeze(whole, std::vector<std::string>{"conv1", "conv2", "fc1/bias"});
  ASSERT_TRUE(part.ok()) << part.status().to_string();
  ASSERT_EQ(part->parameters.size(), 3U);
  EXPECT_EQ(part->parameters[0].name, "fc1/weight");
  ASSERT_EQ(part->frozen.size(), 5U);
  EXPECT_EQ(part->frozen[4].name, "fc1/bias");
  EXPECT_TRUE(graph::verify(part->train).ok());
  EXPECT_LT(part->train.size(), whole.train.size()) << "what only their gradients needed is gone";
  const exec::Feeds feeds = made_up(whole.train, 10);
  const Values all = run(whole.train, initial_values(whole), feeds);
  const Values some = run(part->train, initial_values(*part), feeds);
  EXPECT_EQ(some.size(), 2U + 3U);
  EXPECT_FALSE(some.contains("grad:conv1/weight"));
  for (const auto& [name, value] : some) EXPECT_EQ(floats(value), floats(all.at(name))) << name;
}

TEST(Freeze, ALayersNameIsNotAPrefixOfAnothers) {
  const ModelInput in{Shape{8}, 3};
  const ModelFn build = [](LayerBuilder& l, graph::Value x) {
    return l.dense("fc10", l.dense("fc1", x, 4), 3);
  };
  const ModelGraphs part = *freeze(*build_graphs(build, in, 2), std::vector<std::string>{"fc1"});
  ASSERT_EQ(part.parameters.size(), 2U);
  EXPECT_EQ(part.parameters[0].name, "fc10/weight");
}

TEST(Freeze, KeepsStatistics) {
  const ModelInput in{Shape{3, 64, 64}, 10};
  const ModelGraphs whole = *build_model("resnet18", in, 2, {{{"scale", 0.05}}});
  const ModelGraphs part = *freeze(whole, std::vector<std::string>{"conv1", "stage1_0"});
  EXPECT_EQ(part.statistics.size(), whole.statistics.size());
  for (const Statistic& s : part.statistics) EXPECT_TRUE(part.train.find_output("stat:" + s.name)) << s.name;
}

TEST(Freeze, MistakesAreRefused) {
  const ModelGraphs m = *build_model("mlp", kDigits, 2);
  const Status unknown = freeze(m, std::vector<std::string>{"conv1"}).status();
  EXPECT_EQ(unknown.code(), Code::kNotFound);
  EXPECT_NE(unknown.message().find("'conv1' has parameters; expected one of: fc1, fc2"), std::string::npos)
      << unknown.message();
  EXPECT_FALSE(freeze(m, std::vector<std::string>{"fc1", "fc2"}).ok());
}

TEST(Cut, ParametersBeforeALayerAreThoseThatACheckpointGives) {
  const ModelGraphs m = *build_model("lenet", kDigits, 2);
  const std::vector<Parameter> before = *parameters_before(m, "fc1");
  ASSERT_EQ(before.size(), 4U);
  EXPECT_EQ(before.back().name, "conv2/bias");
  EXPECT_TRUE(parameters_before(m, "conv1")->empty());
  EXPECT_EQ(parameters_before(m, "fc3").status().code(), Code::kNotFound);
}

TEST(Cut, FeaturesAreTheValueOfTheLayer) {
  const ModelGraphs m = *build_model("lenet", kDigits, 2);
  const Result<graph::Graph> cut = cut_at(m.eval, "fc2");
  ASSERT_TRUE(cut.ok()) << cut.status().to_string();
  const exec::Feeds feeds = made_up(m.eval, 10);
  const Values whole = run(m.eval, initial_values(m), feeds);
  const Values logits = run(*cut, initial_values(m), {{"images", feeds.at("images")}});
  ASSERT_EQ(logits.size(), 1U);
  EXPECT_EQ(floats(logits.at("features")), floats(whole.at("logits")));
  const graph::Graph early = *cut_at(m.eval, "conv2");
  EXPECT_EQ(early.type(*early.find_output("features")).shape, (Shape{2, 32, 14, 14}));
  EXPECT_FALSE(early.find_variable("fc1/weight").has_value());
  EXPECT_FALSE(cut_at(m.eval, "conv9").ok());
}

}  // namespace
}  // namespace trireme::model
