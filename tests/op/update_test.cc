// Optimiser steps: by hand, and against 10 steps of PyTorch recorded by tools/record_optimisers.py.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "tests/op/run_op.h"
#include "trireme/base/json.h"
#include "trireme/op/detail/attr_json.h"
#include "trireme/op/ops.h"
#include "trireme/tensor/half.h"

namespace trireme::op::testing {
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor f64(const std::vector<double>& v) {
  return Tensor::from<double>(v, {static_cast<std::int64_t>(v.size())});
}
Tensor scalar(double v) { return Tensor::from<double>(std::vector<double>{v}, {}); }
Tensor count(std::int64_t v) { return Tensor::from<std::int64_t>(std::vector<std::int64_t>{v}, {}); }
Tensor unused() { return f64({}); }

void step(const OpDef& def, const std::vector<Tensor>& in, const Attrs& attrs = {}) {
  const auto out = run_op(def, in, attrs);
  TR_CHECK(out.ok(), "{}", out.status().to_string());
}
void expect_values(const Tensor& t, const std::vector<double>& expected) {
  ASSERT_EQ(t.values<double>().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(t.values<double>()[i], expected[i], 1e-12 * std::max(1.0, std::abs(expected[i]))) << i;
}

Json recorded() {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  TR_CHECK(root != nullptr, "TRIREME_SOURCE_DIR is not set");
  std::ifstream file(std::string(root) + "/tests/op/recorded/optimisers.json");
  std::stringstream text;
  text << file.rdbuf();
  auto json = parse_json(text.str(), "optimisers.json");
  TR_CHECK(json.ok(), "{}", json.status().to_string());
  return *json;
}

TEST(Optimisers, FollowPyTorchForTenSteps) {
  const Json record = recorded();
  const auto grads = record["grads"].get<std::vector<std::vector<double>>>();
  ASSERT_EQ(grads.size(), 10U);
  EXPECT_GE(record["cases"].size(), 17U);
  for (const Json& c : record["cases"]) {
    SCOPED_TRACE(c["name"].get<std::string>());
    const OpDef* def = find_op(c["op"].get<std::string>());
    ASSERT_NE(def, nullptr);
    const auto attrs = detail::attrs_from_json(*def, c["attrs"]);
    ASSERT_TRUE(attrs.ok()) << attrs.status().to_string();
    std::vector<Tensor> in{f64(record["start"].get<std::vector<double>>())};
    for (const Json& used : c["states"]) {
      in.push_back(used.get<bool>() ? f64(std::vector<double>(grads[0].size(), c["initial"].get<double>()))
                                    : unused());
    }
    if (attrs->find("dampening") != nullptr && attrs->get_float("dampening") != 0) {
      // PyTorch does not dampen the first gradient (apply_momentum.cc says how to follow it).
      for (std::size_t i = 0; i < grads[0].size(); ++i)
        in[1].data<double>()[i] = attrs->get_float("dampening") * grads[0][i] / attrs->get_float("momentum");
    }
    const std::size_t at = in.size();
    in.push_back(f64(grads[0]));
    in.push_back(scalar(record["lr"].get<double>()));
    if (static_cast<int>(in.size()) < def->num_inputs) in.push_back(count(1));
    for (std::size_t t = 0; t < grads.size(); ++t) {
      in[at] = f64(grads[t]);
      if (def->num_inputs == static_cast<int>(at) + 3) in[at + 2] = count(static_cast<std::int64_t>(t) + 1);
      step(*def, in, *attrs);
      expect_values(in[0], c["w"][t].get<std::vector<double>>());
      if (HasFailure()) return;
    }
  }
}

TEST(Optimisers, MomentumWithTheRateInside) {
  const Tensor w = f64({1}), v = f64({0.2});
  step(kApplyMomentum, {w, v, f64({3}), scalar(0.1)}, {{"momentum", 0.5}, {"rate_inside", true}});
  expect_values(v, {0.5 * 0.2 + 0.1 * 3});
  expect_values(w, {1 - 0.4});
}

// Sutskever's v' = mu v - lr grad(w + mu v), w' = w + v', on the loss w^2 / 2, against steps at w + mu v.
TEST(Optimisers, NesterovWithTheRateInsideIsThePapersForm) {
  const double mu = 0.9, lr = 0.1;
  double w = 1, v = 0;
  const Tensor ahead = f64({1}), velocity = f64({0});
  for (int t = 0; t < 5; ++t) {
    v = mu * v - lr * (w + mu * v);
    w += v;
    step(kApplyMomentum, {ahead, velocity, f64({ahead.values<double>()[0]}), scalar(lr)},
         {{"momentum", mu}, {"rate_inside", true}, {"nesterov", true}});
    expect_values(ahead, {w + mu * v});
    expect_values(velocity, {-v});
  }
}

TEST(Optimisers, AdagradAndRmspropWithEpsInside) {
  const Tensor w = f64({1}), sum = f64({2});
  step(kApplyAdagrad, {w, sum, f64({3}), scalar(0.1), count(1)}, {{"eps", 0.5}, {"eps_inside", true}});
  expect_values(sum, {11});
  expect_values(w, {1 - 0.1 * 3 / std::sqrt(11.5)});
  const Tensor u = f64({1}), square = f64({2}), velocity = f64({0.25});
  step(kApplyRmsprop, {u, square, unused(), velocity, f64({3}), scalar(0.1)},
       {{"alpha", 0.5}, {"eps", 0.5}, {"eps_inside", true}, {"momentum", 0.5}, {"rate_inside", true}});
  expect_values(square, {5.5});
  expect_values(velocity, {0.125 + 0.3 / std::sqrt(6)});
  expect_values(u, {1 - (0.125 + 0.3 / std::sqrt(6))});
}

TEST(Optimisers, AdamWithEpsHatAndWithoutCorrection) {
  const double m = 0.1 * 3, v = 0.001 * 9, lr = 0.1;
  const auto after = [&](const Attrs& attrs) {
    const Tensor w = f64({1});
    step(kApplyAdam, {w, f64({0}), f64({0}), unused(), f64({3}), scalar(lr), count(1)}, attrs);
    return w;
  };
  expect_values(after({{"eps", 0.5}, {"eps_hat", true}}),
                {1 - lr * std::sqrt(0.001) / 0.1 * m / (std::sqrt(v) + 0.5)});
  expect_values(after({{"eps", 0.5}, {"bias_correction", false}}), {1 - lr * m / (std::sqrt(v) + 0.5)});
}

TEST(Optimisers, AdamsSecondMomentMayStayAfterSomeSteps) {
  const auto after = [](std::int64_t t) {
    const Tensor w = f64({1}), v = f64({0.5});
    step(kApplyAdam, {w, f64({0}), v, unused(), f64({3}), scalar(0.1), count(t)},
         {{"fixed_after", std::int64_t{4}}});
    return std::pair(w, v);
  };
  expect_values(after(4).second, {0.999 * 0.5 + 0.001 * 9});
  const auto [w, v] = after(6);
  expect_values(v, {0.5});
  const double m = 0.1 * 3 / (1 - std::pow(0.9, 6)), root = std::sqrt(0.5 / (1 - std::pow(0.999, 4)));
  expect_values(w, {1 - 0.1 * m / (root + 1e-8)});
}

TEST(Optimisers, StepsBelowOneCountAsTheFirst) {
  const Tensor a = f64({1}), b = f64({1});
  step(kApplyAdam, {a, f64({0}), f64({0}), unused(), f64({3}), scalar(0.1), count(0)});
  step(kApplyAdam, {b, f64({0}), f64({0}), unused(), f64({3}), scalar(0.1), count(1)});
  EXPECT_EQ(a.values<double>()[0], b.values<double>()[0]);
}

TEST(Optimisers, AdamwMayDecayWithoutTheRate) {
  const Tensor w = f64({2});
  step(kApplyAdamw, {w, f64({0}), f64({0}), unused(), f64({0}), scalar(0.1), count(1)},
       {{"weight_decay", 0.25}, {"decay_by_lr", false}});
  expect_values(w, {1.5});
}

TEST(Optimisers, LarsScalesByTheNorms) {
  const Tensor w = f64({3, 4}), v = f64({1, 0});
  step(kApplyLars, {w, v, f64({0, 2}), scalar(0.5)},
       {{"momentum", 0.5}, {"weight_decay", 0.1}, {"trust", 0.01}});
  const double rate = 0.5 * 0.01 * 5 / (2 + 0.1 * 5);
  expect_values(v, {0.5 + rate * 0.3, rate * 2.4});
  expect_values(w, {3 - 0.5 - rate * 0.3, 4 - rate * 2.4});
  const Tensor zero = f64({0}), velocity = f64({0});
  step(kApplyLars, {zero, velocity, f64({2}), scalar(0.5)});
  expect_values(zero, {-1});  // no norm: the plain rate
}

TEST(Optimisers, TakeAnF32RateBeside16BitParameters) {
  const Tensor w = Tensor::from<BFloat16>(std::vector<BFloat16>{1.0F}, {1});
  const Tensor g = Tensor::from<BFloat16>(std::vector<BFloat16>{1.0F}, {1});
  const Tensor lr = Tensor::from<float>(std::vector<float>{0.3F}, {});  // 0.30078125 as bf16
  step(kApplySgd, {w, g, lr});
  EXPECT_EQ(w.values<BFloat16>()[0].bits(), BFloat16(0.7F).bits());
  EXPECT_EQ(run_op(kApplySgd, {f64({1}), f64({1}), count(1)}, {}).status().message(),
            "[op apply_sgd] lr: got i64[], expected f64[]");
}

TEST(Optimisers, RefuseStatesAndOptionsThatDoNotFit) {
  const std::vector<Tensor> in{f64({1}), f64({1}), f64({1}), unused(), f64({1}), scalar(0.1)};
  EXPECT_EQ(run_op(kApplyRmsprop, in, {}).status().message(),
            "[op apply_rmsprop] grad_avg: got f64[1], expected f64[0]");
  EXPECT_EQ(run_op(kApplyRmsprop, in, {{"centered", true}, {"alpha", 1.0}}).status().message(),
            "[op apply_rmsprop] attribute 'alpha': got 1, expected a value in [0, 1)");
  EXPECT_EQ(run_op(kApplyMomentum, {f64({1}), f64({1}), f64({1}), scalar(0.1)},
                   {{"nesterov", true}, {"dampening", 0.5}})
                .status()
                .message(),
            "[op apply_momentum] attribute 'dampening': got 0.5 with nesterov, expected 0");
}

bool finite(const std::vector<Tensor>& in) { return (*run_op(kAllFinite, in, {}))[0].values<bool>()[0]; }

TEST(AllFinite, FindsInfinitiesAndNansInAnyInput) {
  EXPECT_TRUE(finite({f64({1, 2}), scalar(-3), f64({})}));
  EXPECT_FALSE(finite({f64({1, 2}), scalar(kInf)}));
  EXPECT_FALSE(finite({f64({1, -kInf})}));
  EXPECT_FALSE(finite({f64({std::nan(""), 1}), scalar(1)}));
}

TEST(LossScale, FollowsTheRuleOfGradScaler) {
  const Tensor scale = Tensor::from<float>(std::vector<float>{8}, {}), good = count(0);
  const Attrs attrs{{"interval", std::int64_t{3}}};
  const auto after = [&](bool was_finite) {
    step(kUpdateLossScale, {scale, good, Tensor::from<bool>(std::array{was_finite}, {})}, attrs);
    return std::pair{scale.values<float>()[0], good.values<std::int64_t>()[0]};
  };
  using State = std::pair<float, std::int64_t>;
  EXPECT_EQ(after(true), State(8, 1));
  EXPECT_EQ(after(true), State(8, 2));
  EXPECT_EQ(after(true), State(16, 0));
  EXPECT_EQ(after(true), State(16, 1));
  EXPECT_EQ(after(false), State(8, 0));
  scale.values<float>()[0] = std::numeric_limits<float>::max();
  good.values<std::int64_t>()[0] = 2;
  EXPECT_EQ(after(true), State(std::numeric_limits<float>::max(), 0));  // would be infinite: stays
}

}  // namespace
}  // namespace trireme::op::testing
