// The network of cnn_declarative, written imperatively as one training step: forward, backward, update. The
// step is traced once; the Graph that comes out is what runs. Called directly, the same function would do the
// same, bit for bit: the first step is done both ways and compared.
//
// Prints, after rising accuracies:
//   ~ imperative and traced losses are equal: yes
//   ~ test accuracy (8[5-9]|9[0-9])\.[0-9] %
#include <fmt/format.h>

#include <vector>

#include "examples/digits.h"
#include "trireme/eager/ops.h"
#include "trireme/eager/trace.h"
#include "trireme/exec/session.h"
#include "trireme/model/zoo.h"
#include "trireme/op/ops.h"

using namespace trireme;
using eager::Array;

namespace {

constexpr std::int64_t kBatch = 50;
constexpr int kSteps = 300;

Array parameter(eager::Context& ctx, const char* name, const Shape& shape, double bound) {
  const Tensor start = *Tensor::allocate(cpu_device(), {DType::kF32, shape});
  model::initialise({name, start.type(), bound}, /*seed=*/1, start.values<float>());
  return ctx.parameter(name, start);
}

struct Network {
  explicit Network(eager::Context& ctx)
      : w1(parameter(ctx, "conv1/weight", {8, 1, 5, 5}, 0.49)),
        b1(parameter(ctx, "conv1/bias", {8}, 0)),
        w2(parameter(ctx, "conv2/weight", {16, 8, 5, 5}, 0.17)),
        b2(parameter(ctx, "conv2/bias", {16}, 0)),
        w3(parameter(ctx, "fc/weight", {10, 784}, 0.087)),
        b3(parameter(ctx, "fc/bias", {10}, 0)) {}

  Array logits(const Array& images) const {
    Array x = max_pool2d(relu(bias_add(conv2d(images, w1, 1, /*padding=*/2), b1)), 2, 2);
    x = max_pool2d(relu(bias_add(conv2d(x, w2, 1, 2), b2)), 2, 2);
    return bias_add(matmul(x.reshape({images.shape()[0], 784}), w3, false, true), b3);
  }

  eager::NamedArrays test(std::span<const Array> in) const {
    const Array right = eager::apply(op::kCorrect, std::vector{logits(in[0]), in[1], in[2]});
    return {{"accuracy", (right * in[2]).sum()}};
  }

  eager::NamedArrays train(std::span<const Array> in) const {
    const Array scores = logits(in[0]);
    const Array loss = softmax_cross_entropy(scores, in[1], in[2]).sum();
    for (const Array& p : {w1, b1, w2, b2, w3, b3}) p.clear_grad();
    loss.backward();
    for (const Array& p : {w1, b1, w2, b2, w3, b3}) apply_sgd(p, p.grad(), 0.1);
    const Array right = eager::apply(op::kCorrect, std::vector{scores, in[1], in[2]});
    return {{"loss", loss}, {"accuracy", (right * in[2]).sum()}};
  }

  Array w1, b1, w2, b2, w3, b3;
};

std::vector<eager::TraceInput> inputs(std::int64_t n) {
  return {{"images", {DType::kF32, {n, 1, 28, 28}}},
          {"labels", {DType::kI32, {n}}},
          {"weights", {DType::kF32, {n}}}};
}

exec::Feeds feeds_of(const examples::Batch& batch) {
  return {{"images", batch.images}, {"labels", batch.labels}, {"weights", batch.weights}};
}

// A Session over the parameters themselves.
exec::BlockingSession session_for(const eager::Traced& traced) {
  exec::BlockingSession session = *exec::BlockingSession::make(traced.graph, {}, /*compute_threads=*/1);
  for (const auto& [name, tensor] : traced.variables) TR_CHECK(session.variables().add(name, tensor).ok());
  return session;
}

// The loss of the first step, called directly in a Context of its own.
float first_loss_imperatively() {
  eager::Context ctx;
  const Network net(ctx);
  const examples::Batch batch = examples::digits(0, kBatch);
  const std::vector<Array> in{ctx.array(batch.images), ctx.array(batch.labels), ctx.array(batch.weights)};
  return static_cast<float>(*net.train(in)[0].second.item());
}

}  // namespace

int main() {
  eager::Context ctx;
  const Network net(ctx);
  const eager::Traced train =
      *eager::trace(ctx, inputs(kBatch), [&](std::span<const Array> in) { return net.train(in); });
  const eager::Traced test =
      *eager::trace(ctx, inputs(500), [&](std::span<const Array> in) { return net.test(in); });

  exec::BlockingSession session = session_for(train);
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<Tensor> got =
        *session.run(feeds_of(examples::digits(step * kBatch, kBatch)), {"loss", "accuracy"}, train.updates);
    const float loss = *got[0].data<float>();
    if (step == 0)
      fmt::print("imperative and traced losses are equal: {}\n",
                 loss == first_loss_imperatively() ? "yes" : "no");
    if (step % 50 == 0)
      fmt::print("step {:3}  loss {:.3f}  accuracy {:.1f} %\n", step, loss, 100 * *got[1].data<float>());
  }
  const Tensor accuracy = *session_for(test).run_one(feeds_of(examples::digits(60000, 500)), "accuracy");
  fmt::print("test accuracy {:.1f} %\n", 100 * *accuracy.data<float>());
  return 0;
}
