// A convolutional network as a Graph, trained and tested by a Session on the built-in digits. The graph is a
// template: its batch size is unknown, and the Session specialises it to what it is fed, 50 pictures in
// training, 500 in the test.
//
// Prints, after rising accuracies:
//   ~ test accuracy (8[5-9]|9[0-9])\.[0-9] %
#include <fmt/format.h>

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
constexpr int kSteps = 300;

struct Network {
  graph::Graph graph;
  std::vector<model::Parameter> parameters;
  std::vector<std::string> updates;  // outputs that change the parameters
};

Network network() {
  Network net;
  graph::Builder b(net.graph);
  const Value images = b.input("images", DType::kF32, {kUnknownDim, 1, 28, 28});
  const Value labels = b.input("labels", DType::kI32, {kUnknownDim});
  const Value weights = b.input("weights", DType::kF32, {kUnknownDim});

  model::LayerBuilder layers(b, /*training=*/true);
  Value x = b.max_pool2d(b.relu(layers.conv2d("conv1", images, 8, /*window=*/5, 1, /*padding=*/2)), 2, 2);
  x = b.max_pool2d(b.relu(layers.conv2d("conv2", x, 16, 5, 1, 2)), 2, 2);
  const Value logits = layers.dense("fc", x, 10);
  const Value loss = b.sum(b.softmax_cross_entropy(logits, labels, weights));
  b.output("loss", loss);
  b.output("accuracy", b.sum(b.mul(b.add_node(op::kCorrect, {logits, labels, weights}), weights)));

  net.parameters = layers.parameters();
  std::vector<Value> wrt;
  for (const model::Parameter& p : net.parameters) wrt.push_back(*net.graph.find_variable(p.name));
  const std::vector<Value> grads = *graph::add_gradients(net.graph, loss, wrt);
  const Value lr = b.fill(0.1, DType::kF32, {});
  for (std::size_t i = 0; i < grads.size(); ++i) {
    net.updates.push_back("update:" + net.parameters[i].name);
    b.output(net.updates.back(), b.add_node(op::kApplySgd, {wrt[i], grads[i], lr}));
  }
  TR_CHECK(b.status().ok(), "{}", b.status().to_string());
  return net;
}

exec::Feeds feeds_of(const examples::Batch& batch) {
  return {{"images", batch.images}, {"labels", batch.labels}, {"weights", batch.weights}};
}

}  // namespace

int main() {
  const Network net = network();
  exec::BlockingSession session = *exec::BlockingSession::make(net.graph);
  for (const model::Parameter& p : net.parameters) {
    const Tensor start = *Tensor::allocate(cpu_device(), p.type);
    model::initialise(p, /*seed=*/1, start.values<float>());
    TR_CHECK(session.variables().add(p.name, start).ok());
  }

  const exec::Feeds test = feeds_of(examples::digits(60000, kTestBatch));
  for (int step = 0; step < kSteps; ++step) {
    const exec::Feeds batch = feeds_of(examples::digits(step * kTrainBatch, kTrainBatch));
    const Result<std::vector<Tensor>> got = session.run(batch, {"loss", "accuracy"}, net.updates);
    if (!got.ok()) {
      fmt::print("{}\n", got.status().to_string());
      return 1;
    }
    if (step % 50 == 0)
      fmt::print("step {:3}  loss {:.3f}  accuracy {:.1f} %\n", step, *(*got)[0].data<float>(),
                 100 * *(*got)[1].data<float>());
  }
  const Tensor accuracy = *session.run_one(test, "accuracy");
  fmt::print("test accuracy {:.1f} %\n", 100 * *accuracy.data<float>());
  return 0;
}
