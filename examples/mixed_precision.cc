// One hidden layer on the built-in digits, trained twice: all in f32, and with products in bf16. A graph pass
// puts the casts in; weights, gradients and updates stay f32. bf16 has the range of f32, so no loss scale is
// needed (f16 would: model/loss_scaling.h).
//
// Prints, after both losses:
//   ~ bf16 test accuracy (7[5-9]|8[0-9]|9[0-9])\.[0-9] %
//   ~ both are equally good: yes
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "examples/digits.h"
#include "trireme/exec/session.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/model/layers.h"
#include "trireme/op/ops.h"

using namespace trireme;
using graph::Value;

namespace {

constexpr std::int64_t kTrainBatch = 50, kTestBatch = 500;
constexpr int kSteps = 200;

double train_and_test(DType products) {
  graph::Graph g;
  graph::Builder b(g);
  const Value images = b.input("images", DType::kF32, {kUnknownDim, 1, 28, 28});
  const Value labels = b.input("labels", DType::kI32, {kUnknownDim});
  const Value weights = b.input("weights", DType::kF32, {kUnknownDim});
  model::LayerBuilder layers(b, /*training=*/true);
  const Value logits = layers.dense("fc2", b.relu(layers.dense("fc1", images, 64)), 10);
  b.output("loss", b.sum(b.softmax_cross_entropy(logits, labels, weights)));
  b.output("accuracy", b.sum(b.mul(b.add_node(op::kCorrect, {logits, labels, weights}), weights)));
  TR_CHECK(b.status().ok(), "{}", b.status().to_string());

  // Before gradients, so that they are products in bf16 as well.
  if (products != DType::kF32) g = *graph::lower_precision(g, products);
  std::vector<Value> wrt;
  std::vector<std::string> updates;
  for (const model::Parameter& p : layers.parameters()) wrt.push_back(*g.find_variable(p.name));
  const std::vector<Value> grads = *graph::add_gradients(g, *g.find_output("loss"), wrt);
  graph::Builder after(g);
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    updates.push_back("update:" + layers.parameters()[i].name);
    after.output(updates.back(),
                 after.add_node(op::kApplySgd, {wrt[i], grads[i], after.fill(0.1, DType::kF32, {})}));
  }
  TR_CHECK(after.status().ok(), "{}", after.status().to_string());

  exec::BlockingSession session = *exec::BlockingSession::make(g);
  for (const model::Parameter& p : layers.parameters()) {
    const Tensor start = *Tensor::allocate(cpu_device(), p.type);
    model::initialise(p, /*seed=*/1, start.values<float>());
    TR_CHECK(session.variables().add(p.name, start).ok());
  }
  const auto feeds = [](const examples::Batch& batch) -> exec::Feeds {
    return {{"images", batch.images}, {"labels", batch.labels}, {"weights", batch.weights}};
  };
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<Tensor> got =
        *session.run(feeds(examples::digits(step * kTrainBatch, kTrainBatch)), {"loss"}, updates);
    if (step % 50 == 0)
      fmt::print("{} step {:3}  loss {:.3f}\n", dtype_name(products), step, *got[0].data<float>());
  }
  const Tensor accuracy = *session.run_one(feeds(examples::digits(60000, kTestBatch)), "accuracy");
  fmt::print("{} test accuracy {:.1f} %\n", dtype_name(products), 100 * *accuracy.data<float>());
  return *accuracy.data<float>();
}

}  // namespace

int main() {
  const double single = train_and_test(DType::kF32), mixed = train_and_test(DType::kBF16);
  fmt::print("both are equally good: {}\n", std::abs(single - mixed) < 0.03 ? "yes" : "no");
  return 0;
}
