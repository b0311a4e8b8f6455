// Update graphs: against 10 steps of PyTorch recorded by tests/model/record_optimisers.py, and by hand.
#include "trireme/model/optimizer.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/model/run.h"
#include "trireme/base/json.h"

namespace trireme::model {
namespace {

Json recorded() {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  TR_CHECK(root != nullptr, "TRIREME_SOURCE_DIR is not set");
  std::ifstream file(std::string(root) + "/tests/model/recorded/optimisers.json");
  std::stringstream text;
  text << file.rdbuf();
  return *parse_json(text.str(), "optimisers.json");
}

const std::vector<Parameter> kParameters{{"fc/weight", {DType::kF32, {2, 3}}},
                                         {"fc/bias", {DType::kF32, {2}}}};

Tensor scalar(float v) { return tensor_of({v}, {}); }
Tensor scalar_step(std::int64_t t) {
  const std::vector<std::int64_t> values{t};
  return Tensor::from<std::int64_t>(values, {});
}

// A session whose variables are parameters and states.
exec::BlockingSession start(const UpdateGraph& update, const Values& parameters) {
  exec::BlockingSession session = *exec::BlockingSession::make(update.graph, {}, 1);
  for (const auto& [name, value] : parameters) EXPECT_TRUE(session.variables().add(name, value).ok());
  for (const StateVariable& s : update.states) {
    Tensor t = *Tensor::allocate(cpu_device(), s.type);
    for (float& v : t.values<float>()) v = static_cast<float>(s.initial);
    EXPECT_TRUE(session.variables().add(s.name, t).ok()) << s.name;
  }
  return session;
}

OptimizerSpec spec_of(const Json& c) {
  OptimizerSpec spec;
  spec.kind = c.at("kind");
  for (const auto& [name, value] : c.at("attrs").items()) {
    if (value.is_boolean())
      spec.attrs.set(name, value.get<bool>());
    else
      spec.attrs.set(name, value.get<double>());
  }
  spec.clip_norm = c.at("spec").value("clip_norm", 0.0);
  spec.initial_sum = c.at("spec").value("initial_sum", 0.0);
  return spec;
}

double length_of(const Tensor& t) {
  double squares = 0;
  for (const float v : t.values<float>()) squares += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(squares);
}

// A piece of a tensor is updated as that part of the whole.
TEST(Optimizer, ARateFromOutsideIsThatOfTheWholeTensor) {
  OptimizerSpec spec;
  spec.kind = "lars";
  spec.attrs.set("weight_decay", 0.1);
  OptimizerSpec of_piece = spec;
  of_piece.pieces = {"fc/weight"};
  const UpdateGraph whole = *build_update(spec, kParameters), piece = *build_update(of_piece, kParameters);
  const TensorRate rate = *tensor_rate(spec, "fc/weight");
  EXPECT_FALSE(tensor_rate({}, "fc/weight").ok());
  EXPECT_EQ(rate.at(0, 1), 1);
  EXPECT_EQ(rate.at(1, 0), 1);
  const auto weights = [] {
    return Values{{"fc/weight", tensor_of({1, -2, 3, 0.5, 2, -1}, {2, 3})},
                  {"fc/bias", tensor_of({1, 2}, {2})}};
  };
  const Values a = weights(), b = weights();
  exec::BlockingSession as_whole = start(whole, a), as_piece = start(piece, b);
  for (int step = 0; step < 3; ++step) {
    exec::Feeds feeds{{"grad:fc/weight", tensor_of({0.5, 1, -1, 0.25, 2, 1}, {2, 3})},
                      {"grad:fc/bias", tensor_of({1, -1}, {2})},
                      {"lr", scalar(0.5F)}};
    EXPECT_TRUE(as_whole.run(feeds, {}, {"updated:fc/weight", "updated:fc/bias"}).ok());
    feeds["rate:fc/weight"] = scalar(
        static_cast<float>(rate.at(length_of(b.at("fc/weight")), length_of(feeds.at("grad:fc/weight")))));
    EXPECT_TRUE(as_piece.run(feeds, {}, {"updated:fc/weight", "updated:fc/bias"}).ok());
  }
  for (const char* name : {"fc/weight", "fc/bias"})
    for (std::size_t i = 0; i < a.at(name).values<float>().size(); ++i)
      EXPECT_NEAR(a.at(name).values<float>()[i], b.at(name).values<float>()[i], 1e-6) << name << " " << i;
}

TEST(Optimizer, TenStepsAreThoseOfPyTorch) {
  const Json record = recorded();
  std::set<std::string> kinds;
  for (const Json& c : record.at("cases")) {
    const std::string what = c.at("name");
    const OptimizerSpec spec = spec_of(c);
    kinds.insert(spec.kind);
    const Result<UpdateGraph> update = build_update(spec, kParameters);
    ASSERT_TRUE(update.ok()) << what << ": " << update.status().to_string();
    const Tensor weight = tensor_of(record.at("weight"), {2, 3}), bias = tensor_of(record.at("bias"), {2});
    exec::BlockingSession session = start(*update, {{"fc/weight", weight}, {"fc/bias", bias}});
    for (std::size_t t = 0; t < record.at("grads").size(); ++t) {
      const Json& g = record.at("grads")[t];
      exec::Feeds feeds{{"grad:fc/weight", tensor_of(g.at("weight"), {2, 3})},
                        {"grad:fc/bias", tensor_of(g.at("bias"), {2})}};
      if (spec.clip_norm > 0) {
        const graph::Graph clip = *build_clip(kParameters, spec.clip_norm);
        feeds.emplace("clip", run(clip, {}, feeds).at("clip"));
      }
      feeds.emplace("lr", scalar(record.at("lr").get<float>()));
      if (update->reads_step) feeds.emplace("step", scalar_step(static_cast<std::int64_t>(t) + 1));
      const auto done = session.run(feeds, {}, {"updated:fc/weight", "updated:fc/bias"});
      ASSERT_TRUE(done.ok()) << what << ": " << done.status().to_string();
      const Json& expected = c.at("steps")[t];
      for (const auto& [name, tensor] : {std::pair{"weight", weight}, std::pair{"bias", bias}}) {
        const auto values = expected.at(name).get<std::vector<double>>();
        for (std::size_t i = 0; i < values.size(); ++i)
          ASSERT_NEAR(tensor.data<float>()[i], values[i],
                      2e-6 * (1 + std::abs(values[i])) * (1 + static_cast<double>(t)))
              << what << ", step " << t << ", " << name << " " << i;
      }
    }
  }
  for (const OptimizerRow& row : optimizer_table()) EXPECT_TRUE(kinds.contains(row.name)) << row.name;
}

TEST(Optimizer, NamesStatesAfterTheirParameters) {
  const auto names = [](const char* kind, op::Attrs attrs = {}) {
    std::string text;
    const std::vector<Parameter> one{{"a/weight", {DType::kF32, {3}}}};
    const std::vector<StateVariable> states =
        *optimizer_states({.kind = kind, .attrs = std::move(attrs)}, one);
    for (const StateVariable& s : states)
      text += fmt::format("{}{}{}", text.empty() ? "" : " ", s.name, s.type.shape.to_string());
    return text;
  };
  EXPECT_EQ(names("sgd"), "");
  EXPECT_EQ(names("momentum"), "a/weight/velocity[3]");
  EXPECT_EQ(names("adam"), "a/weight/moment1[3] a/weight/moment2[3] a/weight/max_moment2[0]");
  EXPECT_EQ(names("adam", {{"amsgrad", true}}),
            "a/weight/moment1[3] a/weight/moment2[3] a/weight/max_moment2[3]");
  EXPECT_EQ(names("rmsprop", {{"momentum", 0.5}}),
            "a/weight/square_avg[3] a/weight/grad_avg[0] a/weight/velocity[3]");
  EXPECT_EQ(names("adagrad"), "a/weight/sum[3]");
}

TEST(Optimizer, BiasesAndNormsDoNotDecayUnlessAsked) {
  OptimizerSpec spec;
  EXPECT_TRUE(decays(spec, "conv1/weight"));
  EXPECT_TRUE(decays(spec, "weight"));
  EXPECT_FALSE(decays(spec, "conv1/bias"));
  EXPECT_FALSE(decays(spec, "bias"));
  EXPECT_FALSE(decays(spec, "stage1_0/bn1/scale"));
  EXPECT_FALSE(decays(spec, "lstm1/bias_ih"));
  EXPECT_TRUE(decays(spec, "bias/weight"));
  spec.no_decay.clear();
  EXPECT_TRUE(decays(spec, "conv1/bias"));
}

TEST(Optimizer, MistakesSayWhatExists) {
  const Status kind = build_update({.kind = "sdg"}, kParameters).status();
  EXPECT_EQ(kind.code(), Code::kNotFound);
  EXPECT_NE(kind.message().find("'sdg'; expected one of: sgd, momentum"), std::string::npos)
      << kind.message();
  const Status attr = build_update({.kind = "adam", .attrs = {{"beta3", 0.5}}}, kParameters).status();
  EXPECT_NE(attr.message().find("optimizer adam"), std::string::npos) << attr.message();
  EXPECT_NE(attr.message().find("beta3"), std::string::npos) << attr.message();
  EXPECT_FALSE(build_update({.kind = "adam", .attrs = {{"beta1", 1.5}}}, kParameters).ok());
  EXPECT_FALSE(build_update({.clip_norm = -1}, kParameters).ok());
  EXPECT_FALSE(build_clip({}, 1).ok());
  EXPECT_FALSE(build_clip(kParameters, 0).ok());
}

TEST(Clip, FactorIsThatOfTheGlobalNorm) {
  const graph::Graph clip = *build_clip(kParameters, 2);
  const Values long_one = run(
      clip, {},
      {{"grad:fc/weight", tensor_of({2, 0, 0, 0, 0, 1}, {2, 3})}, {"grad:fc/bias", tensor_of({2, 4}, {2})}});
  EXPECT_FLOAT_EQ(*long_one.at("grad_norm").data<float>(), 5);
  EXPECT_FLOAT_EQ(*long_one.at("clip").data<float>(), 0.4F);
  const Values short_one = run(
      clip, {},
      {{"grad:fc/weight", tensor_of({0, 0, 0, 0, 0, 1}, {2, 3})}, {"grad:fc/bias", tensor_of({0, 0}, {2})}});
  EXPECT_EQ(*short_one.at("clip").data<float>(), 1) << "gradients within the norm stay as they are";
}

TEST(Clip, DoesNotDependOnTheOrderOfParameters) {
  const std::vector<Parameter> reversed(kParameters.rbegin(), kParameters.rend());
  EXPECT_EQ(build_clip(kParameters, 2)->to_text(), build_clip(reversed, 2)->to_text());
}

// Goyal et al. 2017, remark 2: with the rate inside the velocity and velocities corrected by the ratio of
// rates, steps are those of the form with the rate outside.
TEST(Optimizer, CorrectedMomentumFollowsTheFormWithTheRateOutside) {
  const std::vector<Parameter> one{{"w", {DType::kF32, {2}}}};
  const UpdateGraph plain = *build_update({}, one);
  const UpdateGraph corrected =
      *build_update({.attrs = {{"rate_inside", true}}, .correct_momentum = true}, one);
  const UpdateGraph uncorrected = *build_update({.attrs = {{"rate_inside", true}}}, one);
  std::vector<Tensor> weights;
  std::vector<exec::BlockingSession> sessions;
  for (const UpdateGraph* u : {&plain, &corrected, &uncorrected}) {
    weights.push_back(tensor_of({1, -2}, {2}));
    sessions.push_back(start(*u, {{"w", weights.back()}}));
  }
  const float rates[] = {0.1F, 0.2F, 0.4F, 0.05F};
  for (int t = 0; t < 4; ++t) {
    exec::Feeds feeds{{"grad:w", tensor_of({1.0F + static_cast<float>(t), -0.5F}, {2})},
                      {"lr", scalar(rates[t])}};
    ASSERT_TRUE(sessions[0].run(feeds, {}, {"updated:w"}).ok());
    ASSERT_TRUE(sessions[2].run(feeds, {}, {"updated:w"}).ok());
    feeds.emplace("velocity_factor", scalar(t == 0 ? 1 : rates[t] / rates[t - 1]));
    const auto done = sessions[1].run(feeds, {}, {"updated:w"});
    ASSERT_TRUE(done.ok()) << done.status().to_string();
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(weights[0].data<float>()[i], weights[1].data<float>()[i], 1e-6);
    EXPECT_GT(std::abs(weights[0].data<float>()[i] - weights[2].data<float>()[i]), 0.01);
  }
}

TEST(Optimizer, AppendedToATrainingGraphItDoesTheStepOfTheSeparateGraph) {
  const ModelInput in{Shape{1, 12, 12}, 10};
  const ModelGraphs m = *build_model("mnist-cnn", in, 4, {{{"scale", 0.1}}});
  const OptimizerSpec spec{.kind = "adamw", .clip_norm = 0.5};
  const exec::Feeds samples = made_up(m.train, 10);
  const auto with_scalars = [&](exec::Feeds feeds) {
    feeds.insert_or_assign("step", scalar_step(1));  // the training graph's own, for dropout
    feeds.emplace("lr", scalar(0.01F));
    return feeds;
  };
  const Values w = initial_values(m), again = initial_values(m);
  exec::Feeds grads;
  exec::Feeds first = samples;
  first.insert_or_assign("step", scalar_step(1));
  const Values trained = run(m.train, w, first);
  for (const Parameter& p : m.parameters) grads.emplace("grad:" + p.name, trained.at("grad:" + p.name));
  grads.emplace("clip", run(*build_clip(m.parameters, 0.5), {}, grads).at("clip"));
  std::vector<std::string> updates;
  for (const Parameter& p : m.parameters) updates.push_back("updated:" + p.name);
  const UpdateGraph apart = *build_update(spec, m.parameters);
  const auto stepped = start(apart, w).run(with_scalars(grads), {}, updates);
  ASSERT_TRUE(stepped.ok()) << stepped.status().to_string();

  const Result<UpdateGraph> whole = append_update(m.train, spec, m.parameters);
  ASSERT_TRUE(whole.ok()) << whole.status().to_string();
  const auto done = start(*whole, again).run(with_scalars(samples), {"loss"}, updates);
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  for (const Parameter& p : m.parameters) {
    EXPECT_EQ(floats(w.at(p.name)), floats(again.at(p.name))) << p.name;
    EXPECT_NE(floats(w.at(p.name)), floats(initial_values(m).at(p.name))) << p.name;
  }
  EXPECT_FALSE(append_update(m.eval, spec, m.parameters).ok());
}

TEST(Optimizer, NamesAreUniqueAndDescribed) {
  std::set<std::string> names;
  for (const OptimizerRow& row : optimizer_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_GT(std::string(row.doc).size(), 10U) << row.name;
  }
}

}  // namespace
}  // namespace trireme::model
