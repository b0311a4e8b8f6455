#include "trireme/model/layers.h"

#include <cmath>
#include <functional>

#include "tests/model/run.h"
#include "trireme/op/ops.h"

namespace trireme::model {
namespace {

using graph::Value;

struct Built {
  graph::Graph graph;
  std::vector<Parameter> parameters;
  std::vector<Statistic> statistics;
  Status status;
};

// One layer on an input x, its value the output "y".
Built build(const TensorType& x, const std::function<Value(LayerBuilder&, Value)>& layer,
            bool training = true) {
  Built built;
  graph::Builder b(built.graph);
  LayerBuilder l(b, training);
  const Value y = layer(l, b.input("x", x.dtype, x.shape));
  if (l.status().ok()) b.output("y", y);
  built.parameters = l.parameters();
  built.statistics = l.statistics();
  built.status = l.status();
  return built;
}

TensorType f32(const Shape& shape) { return {DType::kF32, shape}; }

Tensor counting(const Shape& shape, float factor = 1) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < shape.num_elems(); ++i) values.push_back(factor * static_cast<float>(i + 1));
  return tensor_of(values, shape);
}

std::string listed(const Built& b) {
  std::string text;
  for (const Parameter& p : b.parameters)
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", p.name, p.type.shape.to_string());
  return text;
}

TEST(Layers, MakeTheParametersAndShapesOfTheirKind) {
  struct Case {
    const char* what;
    TensorType x;
    std::function<Value(LayerBuilder&, Value)> layer;
    Shape y;
    std::string parameters;
  };
  const TensorType pictures = f32({2, 4, 8, 6}), texts = f32({2, 5, 6});
  const Case cases[] = {
      {"dense",
       pictures,
       [](LayerBuilder& l, Value x) { return l.dense("d", x, 3); },
       {2, 3},
       "d/weight[3, 192] d/bias[3]"},
      {"dense without bias",
       pictures,
       [](LayerBuilder& l, Value x) { return l.dense("d", x, 3, false); },
       {2, 3},
       "d/weight[3, 192]"},
      {"linear",
       texts,
       [](LayerBuilder& l, Value x) { return l.linear("d", x, 3); },
       {2, 5, 3},
       "d/weight[3, 6] d/bias[3]"},
      {"conv2d",
       pictures,
       [](LayerBuilder& l, Value x) {
         return l.conv2d("c", x,
                         {.out = 6, .window = 3, .stride = 2, .padding = 1, .dilation = 2, .groups = 2});
       },
       {2, 6, 3, 2},
       "c/weight[6, 2, 3, 3] c/bias[6]"},
      {"locally connected",
       pictures,
       [](LayerBuilder& l, Value x) {
         return l.locally_connected("c", x, {.out = 3, .window = 3, .stride = 2});
       },
       {2, 3, 3, 2},
       "c/weight[3, 2, 3, 4, 3, 3] c/bias[3, 3, 2]"},
      {"max pool", pictures, [](LayerBuilder& l, Value x) { return l.max_pool(x, {}); }, {2, 4, 4, 3}, ""},
      {"avg pool",
       pictures,
       [](LayerBuilder& l, Value x) { return l.avg_pool(x, {.window = 3, .stride = 2, .padding = 1}); },
       {2, 4, 4, 3},
       ""},
      {"l2 pool",
       pictures,
       [](LayerBuilder& l, Value x) { return l.l2_pool(x, {.window = 2, .stride = 1}); },
       {2, 4, 7, 5},
       ""},
      {"global pool", pictures, [](LayerBuilder& l, Value x) { return l.global_avg_pool(x); }, {2, 4}, ""},
      {"batch norm",
       pictures,
       [](LayerBuilder& l, Value x) { return l.batch_norm("n", x); },
       {2, 4, 8, 6},
       "n/scale[4] n/bias[4]"},
      {"layer norm",
       texts,
       [](LayerBuilder& l, Value x) { return l.layer_norm("n", x, 2); },
       {2, 5, 6},
       "n/scale[5, 6] n/bias[5, 6]"},
      {"response norm",
       pictures,
       [](LayerBuilder& l, Value x) { return l.local_response_norm(x); },
       {2, 4, 8, 6},
       ""},
      {"contrast norm",
       pictures,
       [](LayerBuilder& l, Value x) { return l.local_contrast_norm(x, 3); },
       {2, 4, 8, 6},
       ""},
      {"positions",
       texts,
       [](LayerBuilder& l, Value x) { return l.positions("p", x); },
       {2, 5, 6},
       "p/weight[5, 6]"},
      {"attention",
       texts,
       [](LayerBuilder& l, Value x) { return l.attention("a", x, 2, true); },
       {2, 5, 6},
       "a/qkv/weight[18, 6] a/qkv/bias[18] a/out/weight[6, 6] a/out/bias[6]"},
      {"experts",
       texts,
       [](LayerBuilder& l, Value x) { return l.experts("e", x, {.experts = 3, .hidden = 4}); },
       {2, 5, 6},
       "e/gate/weight[3, 6] e/up/weight[3, 6, 4] e/up/bias[3, 1, 4] e/down/weight[3, 4, 6] "
       "e/down/bias[3, 1, 6]"},
      {"rnn",
       texts,
       [](LayerBuilder& l, Value x) { return l.rnn("r", x, 4); },
       {2, 5, 4},
       "r/weight_ih[4, 6] r/weight_hh[4, 4] r/bias_ih[4] r/bias_hh[4]"},
      {"lstm",
       texts,
       [](LayerBuilder& l, Value x) { return l.lstm("r", x, 4); },
       {2, 5, 4},
       "r/weight_ih[16, 6] r/weight_hh[16, 4] r/bias_ih[16] r/bias_hh[16]"},
      {"gru",
       texts,
       [](LayerBuilder& l, Value x) { return l.gru("r", x, 4); },
       {2, 5, 4},
       "r/weight_ih[12, 6] r/weight_hh[12, 4] r/bias_ih[12] r/bias_hh[12]"},
      {"embedding",
       {DType::kI32, {2, 5}},
       [](LayerBuilder& l, Value x) { return l.embedding("e", x, 9, 3); },
       {2, 5, 3},
       "e/weight[9, 3]"},
  };
  for (const Case& c : cases) {
    const Built built = build(c.x, c.layer);
    ASSERT_TRUE(built.status.ok()) << c.what << ": " << built.status.to_string();
    EXPECT_EQ(built.graph.type(*built.graph.find_output("y")).shape, c.y) << c.what;
    EXPECT_EQ(listed(built), c.parameters) << c.what;
    EXPECT_TRUE(graph::verify(built.graph).ok()) << c.what;
  }
}

TEST(Layers, WorkOnABatchThatIsNotKnownYet) {
  const Built built = build(f32({kUnknownDim, 5, 6}), [](LayerBuilder& l, Value x) {
    x = l.attention("a", l.layer_norm("n", x), 3, true);
    x = l.experts("e", x, {.experts = 2, .hidden = 3, .top = 2});
    return l.linear("out", l.gru("g", l.lstm("r", x, 4), 4), 3);
  });
  ASSERT_TRUE(built.status.ok()) << built.status.to_string();
  Values w;
  for (const Parameter& p : built.parameters) w.emplace(p.name, counting(p.type.shape, 0.01F));
  const Values out = run(built.graph, w, {{"x", counting({2, 5, 6}, 0.1F)}});
  EXPECT_EQ(out.at("y").shape(), (Shape{2, 5, 3}));
}

TEST(Layers, LinearDoesTheSameToEveryRow) {
  const Built built = build(f32({1, 2, 2}), [](LayerBuilder& l, Value x) { return l.linear("d", x, 1); });
  const Values out =
      run(built.graph, {{"d/weight", tensor_of({10, 1}, {1, 2})}, {"d/bias", tensor_of({0.5}, {1})}},
          {{"x", counting({1, 2, 2})}});
  EXPECT_EQ(floats(out.at("y")), (std::vector<float>{12.5F, 34.5F}));
}

TEST(Layers, ATiedTableIsOneParameterUsedTwice) {
  const Built built = build({DType::kI32, {1, 2}},
                            [](LayerBuilder& l, Value x) { return l.tied("e", l.embedding("e", x, 3, 2)); });
  ASSERT_TRUE(built.status.ok()) << built.status.to_string();
  EXPECT_EQ(listed(built), "e/weight[3, 2]");
  const std::vector<std::int32_t> ids{2, 0};
  const Values out =
      run(built.graph, {{"e/weight", counting({3, 2})}}, {{"x", Tensor::from<std::int32_t>(ids, {1, 2})}});
  // Rows 5 6 and 1 2 against all rows 1 2, 3 4, 5 6.
  EXPECT_EQ(floats(out.at("y")), (std::vector<float>{17, 39, 61, 5, 11, 17}));
}

TEST(Layers, ACausalTokenDoesNotSeeTheNext) {
  const Built built =
      build(f32({1, 3, 4}), [](LayerBuilder& l, Value x) { return l.attention("a", x, 2, true); });
  Values w;
  for (const Parameter& p : built.parameters) {
    w.emplace(p.name, *Tensor::allocate(cpu_device(), p.type));
    initialise(p, 3, w.at(p.name).values<float>());
  }
  Tensor x = counting({1, 3, 4}, 0.1F);
  const auto before = floats(run(built.graph, w, {{"x", x}}).at("y"));
  x.data<float>()[11] = 5;
  const auto after = floats(run(built.graph, w, {{"x", x}}).at("y"));
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(before[i], after[i]) << i;
  EXPECT_NE(before[8], after[8]);
}

TEST(BatchNorm, GivesMeanAndUnbiasedVarianceWeightedByTheShardsShare) {
  graph::Graph g;
  graph::Builder b(g);
  const Value x = b.input("x", DType::kF32, {2, 1, 1, 2});
  b.input("weights", DType::kF32, {2});
  LayerBuilder l(b, true);
  b.output("y", l.batch_norm("n", x));
  ASSERT_TRUE(l.status().ok()) << l.status().to_string();
  ASSERT_EQ(l.statistics().size(), 2U);
  EXPECT_EQ(l.statistics()[0].name, "n/mean");
  EXPECT_EQ(l.statistics()[1].name, "n/var");
  EXPECT_EQ(l.statistics()[1].initial, 1);
  const Values out =
      run(g, {{"n/scale", tensor_of({1}, {1})}, {"n/bias", tensor_of({0}, {1})}},
          {{"x", tensor_of({1, 2, 3, 6}, {2, 1, 1, 2})}, {"weights", tensor_of({0.125F, 0.125F}, {2})}});
  // Mean 3; squares of deviations 4 + 1 + 0 + 9 = 14 over 4 - 1; a quarter of the step is here.
  EXPECT_FLOAT_EQ(*out.at("stat:n/mean").data<float>(), 0.75F);
  EXPECT_FLOAT_EQ(*out.at("stat:n/var").data<float>(), 14.0F / 3 / 4);
}

TEST(BatchNorm, RunningStatisticsMoveByTheirMomentum) {
  const std::vector<Statistic> stats{{"n/mean", f32({2}), 0, 0.1}, {"n/var", f32({2}), 1, 0.5}};
  const graph::Graph g = *statistics_update(stats);
  const Values out = run(g, {{"n/mean", tensor_of({1, 2}, {2})}, {"n/var", tensor_of({4, 8}, {2})}},
                         {{"stat:n/mean", tensor_of({11, 2}, {2})}, {"stat:n/var", tensor_of({0, 2}, {2})}});
  EXPECT_FLOAT_EQ(out.at("updated:n/mean").data<float>()[0], 2);
  EXPECT_FLOAT_EQ(out.at("updated:n/mean").data<float>()[1], 2);
  EXPECT_FLOAT_EQ(out.at("updated:n/var").data<float>()[0], 2);
  EXPECT_FLOAT_EQ(out.at("updated:n/var").data<float>()[1], 5);
}

TEST(BatchNorm, EvaluationReadsTheRunningStatistics) {
  const Built built = build(
      f32({1, 1, 1, 2}), [](LayerBuilder& l, Value x) { return l.batch_norm("n", x, {.eps = 0}); }, false);
  const Values out = run(built.graph,
                         {{"n/scale", tensor_of({3}, {1})},
                          {"n/bias", tensor_of({1}, {1})},
                          {"n/mean", tensor_of({2}, {1})},
                          {"n/var", tensor_of({4}, {1})}},
                         {{"x", tensor_of({2, 6}, {1, 1, 1, 2})}});
  EXPECT_EQ(floats(out.at("y")), (std::vector<float>{1, 7}));
}

TEST(Layers, ActivationsAreFoundByNameOrRefusedWithTheNames) {
  const Built relu = build(f32({2}), [](LayerBuilder& l, Value x) { return l.activation("relu", x); });
  EXPECT_EQ(floats(run(relu.graph, {}, {{"x", tensor_of({-1, 2}, {2})}}).at("y")),
            (std::vector<float>{0, 2}));
  const Built same = build(f32({2}), [](LayerBuilder& l, Value x) { return l.activation("identity", x); });
  EXPECT_EQ(same.graph.size(), 1);
  const Built bad = build(f32({2}), [](LayerBuilder& l, Value x) { return l.activation("relo", x); });
  EXPECT_EQ(bad.status.code(), Code::kInvalid);
  EXPECT_NE(bad.status.message().find("'relo', expected one of: relu, "), std::string::npos);
}

TEST(Layers, MistakesAreErrorsThatNameTheLayer) {
  struct Case {
    TensorType x;
    std::function<Value(LayerBuilder&, Value)> layer;
    const char* message;
  };
  const Case cases[] = {
      {f32({2, 3}), [](LayerBuilder& l, Value x) { return l.conv2d("c1", x, 4, 3, 1, 1); }, "'c1': got x"},
      {f32({2, 3, 5, 5}), [](LayerBuilder& l, Value x) { return l.conv2d("c1", x, {.out = 4, .groups = 2}); },
       "'c1/': got 2 groups for 3 and 4 channels"},
      {f32({2, 3, 5, 5}),
       [](LayerBuilder& l, Value x) { return l.locally_connected("u", x, {.out = 4, .window = 7}); },
       "'u/': a window of 7 does not fit"},
      {f32({2, 3, 5}), [](LayerBuilder& l, Value x) { return l.attention("a", x, 2, false); },
       "'a/': got 2 heads"},
      {f32({2, 3}), [](LayerBuilder& l, Value x) { return l.lstm("r", x, 2); }, "'r': got x"},
      {f32({2, 3, 4}), [](LayerBuilder& l, Value x) { return l.gru("r", x, 0); }, "'r/': got 0 hidden units"},
      {f32({2, 3}), [](LayerBuilder& l, Value x) { return l.tied("e", x); }, "no parameter 'e/weight'"},
      {f32({2, 3}),
       [](LayerBuilder& l, Value x) {
         l.set_init("kaiming");
         return l.dense("d", x, 2);
       },
       "initialiser: got 'kaiming'"},
  };
  for (const Case& c : cases) {
    const Built built = build(c.x, [&](LayerBuilder& l, Value x) {
      return l.dense("after", c.layer(l, x), 2);  // the first failure stays
    });
    EXPECT_FALSE(built.status.ok()) << c.message;
    EXPECT_NE(built.status.message().find(c.message), std::string::npos) << built.status.message();
  }
}

TEST(Layers, APenaltyIsAddedToTheTrainingLossOnly) {
  const ModelFn fn = [](LayerBuilder& l, Value x) {
    graph::Builder& b = l.graph();
    l.penalty(b.add_node(op::kSum, {x}, {{"axes", std::vector<std::int64_t>{1}}}));
    return b.mul(x, l.parameter("gain", {2}, "ones", {}));
  };
  const ModelGraphs m = *build_graphs(fn, {Shape{2}, 10, ModelTask::kReconstruct}, 2);
  const exec::Feeds feeds{{"images", tensor_of({1, 2, 3, 4}, {2, 2})},
                          {"weights", tensor_of({0.5F, 0.25F}, {2})}};
  EXPECT_FLOAT_EQ(*run(m.train, initial_values(m), feeds).at("loss").data<float>(), 3 * 0.5F + 7 * 0.25F);
  EXPECT_FLOAT_EQ(*run(m.eval, initial_values(m), feeds).at("loss").data<float>(), 0);
}

TEST(Layers, ATextCountsAsOneSampleHoweverLongItIs) {
  const ModelFn fn = [](LayerBuilder& l, Value x) { return l.embedding("e", x, 4, 4); };
  const ModelGraphs m = *build_graphs(fn, {Shape{3}, 4, ModelTask::kLanguage}, 2);
  Values w{{"e/weight", tensor_of(std::vector<float>(16, 0.0F), {4, 4})}};
  const std::vector<std::int32_t> tokens{0, 1, 2, 3, 0, 1}, labels{0, 1, 0, 0, 0, 0};
  const exec::Feeds feeds{{"tokens", Tensor::from<std::int32_t>(tokens, {2, 3})},
                          {"labels", Tensor::from<std::int32_t>(labels, {2, 3})},
                          {"weights", tensor_of({0.5F, 0.5F}, {2})}};
  const Values out = run(m.eval, w, feeds);
  EXPECT_NEAR(*out.at("loss").data<float>(), std::log(4.0), 1e-6);
  EXPECT_NEAR(*out.at("correct").data<float>(), 2.0 / 3 + 1, 1e-6);  // equal logits: class 0 wins
}

}  // namespace
}  // namespace trireme::model
