#include "trireme/model/describe.h"

#include <set>

#include "tests/model/run.h"

namespace trireme::model {
namespace {

const ModelInput kDigits{Shape{1, 12, 12}, 10}, kText{Shape{6}, 9, ModelTask::kLanguage};

Result<ModelGraphs> describe(const char* text, const ModelInput& input = kDigits, std::int64_t n = 2) {
  TR_ASSIGN_OR_RETURN(const Json layers, parse_json(text, "layers"));
  TR_ASSIGN_OR_RETURN(const ModelFn build, describe_model(layers, input));
  return build_graphs(build, input, n);
}

std::string names(const ModelGraphs& m) {
  std::string text;
  for (const Parameter& p : m.parameters) text += fmt::format("{}{}", text.empty() ? "" : " ", p.name);
  return text;
}

TEST(Describe, AListOfLayersIsTheModelItNames) {
  const Result<ModelGraphs> m = describe(R"([
    {"kind": "conv2d", "out": 4, "window": 5, "padding": 2, "activation": "relu"}, {"kind": "max_pool"},
    {"kind": "dense", "name": "hidden", "out": 16, "activation": "tanh", "init": "xavier"},
    {"kind": "dropout", "rate": 0.25}, {"kind": "classifier"}])");
  ASSERT_TRUE(m.ok()) << m.status().to_string();
  EXPECT_EQ(names(*m),
            "conv2d1/weight conv2d1/bias hidden/weight hidden/bias classifier1/weight classifier1/bias");
  EXPECT_EQ(m->parameters[2].type.shape, (Shape{16, 4 * 6 * 6}));
  EXPECT_DOUBLE_EQ(m->parameters[2].bound, std::sqrt(6.0 / (144 + 16)));
  const Values out = run(m->train, initial_values(*m), made_up(m->train, 10));
  EXPECT_GT(*out.at("loss").data<float>(), 0);
}

// The zoo's lenet in words: same shapes, same first values, same loss, since names agree.
TEST(Describe, GivesTheBitsOfTheSameModelBuiltInCode) {
  const ModelInput in{Shape{1, 28, 28}, 10};
  const ModelGraphs words = *describe(R"([
    {"kind": "conv2d", "name": "conv1", "out": 16, "window": 5, "padding": 2, "activation": "relu"},
    {"kind": "max_pool"},
    {"kind": "conv2d", "name": "conv2", "out": 32, "window": 5, "padding": 2, "activation": "relu"},
    {"kind": "max_pool"}, {"kind": "dense", "name": "fc1", "out": 128, "activation": "relu"},
    {"kind": "dropout", "rate": 0.25}, {"kind": "classifier", "name": "fc2"}])",
                                      in, 3);
  const ModelGraphs code = *build_model("lenet", in, 3);
  const Values a = run(words.train, initial_values(words), made_up(words.train, 10));
  const Values b = run(code.train, initial_values(code), made_up(code.train, 10));
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a) EXPECT_EQ(floats(value), floats(b.at(name))) << name;
}

TEST(Describe, ResidualsAddWhatTheyRead) {
  const Result<ModelGraphs> m = describe(R"([
    {"kind": "conv2d", "out": 4, "window": 3, "padding": 1},
    {"kind": "residual", "activation": "relu", "layers": [
      {"kind": "batch_norm", "activation": "relu"}, {"kind": "conv2d", "out": 4, "window": 3, "padding": 1}]},
    {"kind": "global_avg_pool"}, {"kind": "classifier"}])");
  ASSERT_TRUE(m.ok()) << m.status().to_string();
  EXPECT_EQ(names(*m),
            "conv2d1/weight conv2d1/bias residual1/batch_norm1/scale residual1/batch_norm1/bias "
            "residual1/conv2d1/weight residual1/conv2d1/bias classifier1/weight classifier1/bias");
  ASSERT_EQ(m->statistics.size(), 2U);
  EXPECT_EQ(m->statistics[0].name, "residual1/batch_norm1/mean");
}

TEST(Describe, TextsAndReconstructionsHaveClassifiersOfTheirOwn) {
  const Result<ModelGraphs> text = describe(R"([
    {"kind": "embedding", "width": 8}, {"kind": "positions"},
    {"kind": "residual", "layers": [{"kind": "layer_norm"}, {"kind": "attention", "heads": 2, "causal": true}]},
    {"kind": "lstm", "hidden": 5}, {"kind": "classifier"}])",
                                            kText);
  ASSERT_TRUE(text.ok()) << text.status().to_string();
  EXPECT_EQ(text->eval.type(*text->eval.find_output("logits")).shape, (Shape{12, 9}));
  const ModelInput rebuild{Shape{1, 4, 4}, 10, ModelTask::kReconstruct};
  const Result<ModelGraphs> coder =
      describe(R"([{"kind": "dense", "out": 3, "activation": "sigmoid"}, {"kind": "classifier"}])", rebuild);
  ASSERT_TRUE(coder.ok()) << coder.status().to_string();
  EXPECT_EQ(coder->eval.type(*coder->eval.find_output("logits")).shape, (Shape{2, 1, 4, 4}));
}

TEST(Describe, EveryKindOfLayerCanBeBuilt) {
  const std::pair<const char*, const char*> pictures[] = {
      {"dense", R"("out": 3)"},
      {"linear", R"("out": 3)"},
      {"classifier", ""},
      {"conv2d", R"("out": 2, "window": 3)"},
      {"locally_connected", R"("out": 2, "window": 3, "stride": 2)"},
      {"max_pool", ""},
      {"avg_pool", R"("window": 3)"},
      {"l2_pool", ""},
      {"global_avg_pool", ""},
      {"flatten", ""},
      {"batch_norm", R"("momentum": 0.2)"},
      {"layer_norm", R"("axes": 3)"},
      {"local_response_norm", ""},
      {"local_contrast_norm", R"("window": 3)"},
      {"dropout", R"("rate": 0.5)"},
      {"activation", R"("function": "elu")"},
      {"residual", R"("layers": [{"kind": "activation", "function": "tanh"}])"}};
  const std::pair<const char*, const char*> texts[] = {
      {"positions", ""},         {"attention", R"("heads": 4)"}, {"experts", R"("experts": 4, "hidden": 3)"},
      {"rnn", R"("hidden": 3)"}, {"lstm", R"("hidden": 3)"},     {"gru", R"("hidden": 3)"}};
  std::set<std::string> built{"embedding"};
  const auto layer = [&](const auto& row) {
    built.insert(row.first);
    return fmt::format(R"({{"kind": "{}"{}{}}})", row.first, *row.second ? ", " : "", row.second);
  };
  for (const auto& row : pictures) {
    const auto m =
        describe(fmt::format(R"([{}, {{"kind": "classifier", "name": "end"}}])", layer(row)).c_str());
    EXPECT_TRUE(m.ok()) << m.status().to_string();
  }
  for (const auto& row : texts) {
    const auto list = fmt::format(
        R"([{{"kind": "embedding", "width": 4}}, {}, {{"kind": "classifier", "name": "end"}}])", layer(row));
    const auto m = describe(list.c_str(), kText);
    EXPECT_TRUE(m.ok()) << m.status().to_string();
  }
  for (const LayerRow& row : layer_table()) EXPECT_TRUE(built.contains(row.kind)) << row.kind;
  EXPECT_EQ(built.size(), layer_table().size());
}

TEST(Describe, MistakesNameTheLayer) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"kind": "dense"})", "layers: got object"},
      {R"([])", "layers: got array of 0"},
      {R"([3])", "layer 0: got number, expected a table with a string 'kind'"},
      {R"([{"out": 3}])", "layer 0: got object, expected a table with a string 'kind'"},
      {R"([{"kind": "flatten"}, {"kind": "dens", "out": 3}])",
       "layer 1: kind: got 'dens', expected one of: dense, "},
      {R"([{"kind": "dense"}])", "layer 0 (dense): 'out' is missing"},
      {R"([{"kind": "dense", "out": 3, "widht": 2}])",
       "layer 0 (dense): unknown attribute 'widht'; expected one of: kind, name, out, bias, activation, "
       "init"},
      {R"([{"kind": "dense", "out": 2.5}])", "layer 0 (dense): 'out': got number, expected an integer"},
      {R"([{"kind": "dense", "out": "3"}])", "layer 0 (dense): 'out': got string, expected an integer"},
      {R"([{"kind": "dense", "out": 0}])", "layer 0 (dense): 'out': got 0, expected 1 to 16777216"},
      {R"([{"kind": "dense", "out": 1e300}])", "layer 0 (dense): 'out': got number, expected an integer"},
      {R"([{"kind": "conv2d", "out": 3, "window": 4000000000}])",
       "layer 0 (conv2d): 'window': got 4000000000"},
      {R"([{"kind": "dense", "out": 3, "bias": 1}])", "'bias': got number, expected true or false"},
      {R"([{"kind": "dense", "out": 3, "name": "a/b"}])", "layer 0 (dense): 'name': expected a word"},
      {R"([{"kind": "dense", "out": 3, "name": "a"}, {"kind": "dense", "out": 3, "name": "a"}])",
       "layer 1 (dense): the name 'a' is taken"},
      {R"([{"kind": "dense", "out": 3, "activation": "relo"}])",
       "layer 0 (dense): [model] activation: got 'relo'"},
      {R"([{"kind": "dense", "out": 3, "init": "hee"}])", "layer 0 (dense): [model] initialiser: got 'hee'"},
      {R"([{"kind": "flatten"}, {"kind": "conv2d", "out": 3, "window": 3}])", "layer 1 (conv2d): "},
      {R"([{"kind": "max_pool", "window": 40}])", "layer 0 (max_pool): "},
      {R"([{"kind": "flatten"}, {"kind": "residual", "layers": [{"kind": "flatten"}, {"kind": "gru", "hidden": 2}]}])",
       "layer 1.1 (gru): "},
      {R"([{"kind": "residual", "layers": [{"kind": "dense", "out": 3}]}])", "layer 0 (residual): "},
      {R"([{"kind": "residual", "layers": []}])", "layers: got array of 0"},
      {R"([{"kind": "max_pool"}])", "the last layer gives f32[2, 1, 6, 6], expected 10 scores"},
  };
  for (const auto& [text, message] : cases) {
    const Status status = describe(text).status();
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_NE(status.message().find(message), std::string::npos) << text << "\n" << status.message();
  }
}

TEST(Describe, ListsInsideListsHaveALimit) {
  std::string text = R"({"kind": "flatten"})";
  for (int i = 0; i < 40; ++i) text = fmt::format(R"({{"kind": "residual", "layers": [{}]}})", text);
  const Status status = describe(fmt::format("[{}]", text).c_str()).status();
  EXPECT_NE(status.message().find("more than 16 lists inside each other"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace trireme::model
