// Training with 16-bit products, f32 master weights and a loss scale, on the built-in digits.
#include <gtest/gtest.h>

#include <cmath>

#include "trireme/data/digits.h"
#include "trireme/exec/session.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/model/loss_scaling.h"
#include "trireme/model/zoo.h"
#include "trireme/op/ops.h"

namespace trireme::model {
namespace {

constexpr std::int64_t kBatch = 50, kPixels = data::kDigitSide * data::kDigitSide;
const std::vector<std::string> kParameters{"w1", "b1", "w2", "b2"};

struct Options {
  DType products = DType::kF32;
  double loss_factor = 1;  // makes gradients small
  double scale = 1;        // of the loss, to begin with
};

graph::Graph forward(const Options& o) {
  graph::Graph g;
  graph::Builder b(g);
  const auto x = b.input("images", DType::kF32, {kBatch, kPixels});
  const auto labels = b.input("labels", DType::kI32, {kBatch}),
             weights = b.input("weights", DType::kF32, {kBatch});
  const auto w1 = b.variable("w1", DType::kF32, {kPixels, 32}), b1 = b.variable("b1", DType::kF32, {32});
  const auto w2 = b.variable("w2", DType::kF32, {32, 10}), b2 = b.variable("b2", DType::kF32, {10});
  const auto hidden = b.relu(b.bias_add(b.matmul(x, w1), b1));
  const auto logits = b.bias_add(b.matmul(hidden, w2), b2);
  const auto loss = b.sum(b.softmax_cross_entropy(logits, labels, weights));
  b.output("loss", b.mul(loss, b.fill(o.loss_factor, DType::kF32, {})));
  TR_CHECK(b.status().ok(), "{}", b.status().to_string());
  return o.products == DType::kF32 ? g : *graph::lower_precision(g, o.products);
}

// Outputs: loss, finite, grad:<p>, update:<p>, update_scale.
graph::Graph training(const Options& o) {
  graph::Graph g = forward(o);
  graph::Builder b(g);
  const auto scale = b.variable("scale", DType::kF32, {}), good = b.variable("good_steps", DType::kI64, {});
  const auto lr = b.input("lr", DType::kF32, {});
  std::vector<graph::Value> parameters;
  for (const auto& p : kParameters) parameters.push_back(*g.find_variable(p));
  const auto scaled = add_scaled_gradients(g, *g.find_output("loss"), scale, parameters);
  TR_CHECK(scaled.ok(), "{}", scaled.status().to_string());
  b.output("finite", scaled->finite);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    b.output("grad:" + kParameters[i], scaled->gradients[i]);
    b.output("update:" + kParameters[i],
             b.add_node(op::kApplySgd, {parameters[i], scaled->gradients[i], lr}));
  }
  b.output("update_scale",
           b.add_node(op::kUpdateLossScale, {scale, good, scaled->finite}, {{"interval", std::int64_t{10}}}));
  TR_CHECK(b.status().ok(), "{}", b.status().to_string());
  return g;
}

class Trainer {
 public:
  explicit Trainer(const Options& o) : o_(o), session_(*exec::BlockingSession::make(training(o), {}, 1)) {
    for (const auto& p : kParameters) {
      const TensorType type = session_.session().graph().type(*session_.session().graph().find_variable(p));
      const Tensor t = *Tensor::allocate(cpu_device(), type);
      initialise({p, type, p[0] == 'w' ? 0.08 : 0}, 7, t.values<float>());
      add(p, t);
    }
    const float scale = static_cast<float>(o.scale);
    const std::int64_t zero = 0;
    add("scale", Tensor::from<float>({&scale, 1}, {}));
    add("good_steps", Tensor::from<std::int64_t>({&zero, 1}, {}));
  }

  // One step; the loss of the batch before it. Skips the updates when gradients are not finite.
  float step(std::int64_t first) {
    const exec::Feeds feeds = batch(first);
    std::vector<std::string> fetches{"loss", "finite"};
    for (const auto& p : kParameters) fetches.push_back("grad:" + p);
    auto got = session_.run(feeds, fetches);
    TR_CHECK(got.ok(), "{}", got.status().to_string());
    const bool finite = (*got)[1].values<bool>()[0];
    // The gradients fetched are fed back, so that nothing runs twice.
    exec::Feeds again{{"lr", feeds.at("lr")}, {"finite", (*got)[1]}};
    std::vector<std::string> effects{"update_scale"};
    for (std::size_t i = 0; finite && i < kParameters.size(); ++i) {
      again["grad:" + kParameters[i]] = (*got)[2 + i];
      effects.push_back("update:" + kParameters[i]);
    }
    if (!finite) again.erase("lr");
    const auto updated = session_.run(again, {}, effects);
    TR_CHECK(updated.ok(), "{}", updated.status().to_string());
    skipped_ += finite ? 0 : 1;
    return static_cast<float>((*got)[0].values<float>()[0] / o_.loss_factor);
  }
  float train(int steps) {
    float loss = 0;
    for (int i = 0; i < steps; ++i) loss = step(i % 10 * kBatch);
    return loss;
  }
  Tensor variable(const std::string& name) { return *session_.variables().get(name); }
  int skipped() const { return skipped_; }

 private:
  void add(const std::string& name, const Tensor& t) {
    const Status added = session_.variables().add(name, t);
    TR_CHECK(added.ok(), "{}", added.to_string());
  }
  exec::Feeds batch(std::int64_t first) const {
    std::vector<float> images, weights(kBatch, 1.0F / kBatch);
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < kBatch; ++i) {
      std::array<std::uint8_t, kPixels> pixels{};
      labels.push_back(data::draw_digit({}, first + i, pixels));
      for (const std::uint8_t v : pixels) images.push_back(static_cast<float>(v) / 255);
    }
    const auto lr = static_cast<float>(0.5 / o_.loss_factor);
    return {{"images", Tensor::from<float>(images, {kBatch, kPixels})},
            {"labels", Tensor::from<std::int32_t>(labels, {kBatch})},
            {"weights", Tensor::from<float>(weights, {kBatch})},
            {"lr", Tensor::from<float>({&lr, 1}, {})}};
  }

  Options o_;
  exec::BlockingSession session_;
  int skipped_ = 0;
};

TEST(MixedPrecision, LearnsAsWellAsSinglePrecision) {
  const float single = Trainer({}).train(60);
  EXPECT_LT(single, 0.8F);  // ln 10 = 2.3 at the start
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    Trainer t({.products = dtype, .scale = 1024});
    EXPECT_NEAR(t.train(60), single, 0.1F) << dtype_name(dtype);
    EXPECT_EQ(t.skipped(), 0);
    EXPECT_EQ(t.variable("w1").dtype(), DType::kF32) << "master weights";
  }
}

// The smallest f16 is 6e-8: without a scale these gradients are zero and nothing is learnt.
TEST(MixedPrecision, AScaleSavesSmallGradients) {
  const Options small{.products = DType::kF16, .loss_factor = 1e-7};
  Options scaled = small;
  scaled.scale = 65536;
  EXPECT_GT(Trainer(small).train(40), 2.0F);
  EXPECT_LT(Trainer(scaled).train(40), 1.2F);
}

TEST(MixedPrecision, OverflowSkipsTheStepAndHalvesTheScale) {
  Trainer t({.products = DType::kF16, .scale = 1e9});
  const std::vector<float> before(t.variable("w1").values<float>().begin(),
                                  t.variable("w1").values<float>().end());
  t.step(0);
  EXPECT_EQ(t.skipped(), 1);
  EXPECT_EQ(t.variable("scale").values<float>()[0], 5e8F);
  const auto after = t.variable("w1").values<float>();
  EXPECT_TRUE(std::equal(after.begin(), after.end(), before.begin()));
  const float loss = t.train(80);
  EXPECT_GT(t.skipped(), 5);
  EXPECT_LT(t.skipped(), 40);
  EXPECT_LT(loss, 0.9F);
}

}  // namespace
}  // namespace trireme::model
