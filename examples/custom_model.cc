// A model of one's own, trained by an optimiser and a schedule of the library on the built-in digits. Prints:
//   ~ test accuracy (8[5-9]|9[0-9])\.[0-9] %
#include "examples/digits.h"
#include "trireme/exec/session.h"
#include "trireme/model/layers.h"
#include "trireme/model/optimizer.h"
#include "trireme/model/schedule.h"
using namespace trireme;

graph::Value my_model(model::LayerBuilder& l, graph::Value x) {
  x = l.max_pool(l.activation("relu", l.conv2d("conv", x, {.out = 8, .window = 5, .padding = 2})), {});
  return l.dense("out", l.activation("relu", l.dense("hidden", x, 64)), 10);
}

exec::Feeds samples(std::int64_t first, std::int64_t n) {
  const examples::Batch b = examples::digits(first, n);
  return {{"images", b.images}, {"labels", b.labels}, {"weights", b.weights}};
}

int main() {
  const model::ModelGraphs net = *model::build_graphs(my_model, {Shape{1, 28, 28}, 10}, kUnknownDim);
  const model::UpdateGraph all = *model::append_update(net.train, {.kind = "nesterov"}, net.parameters);
  exec::BlockingSession session = *exec::BlockingSession::make(all.graph);
  std::vector<model::Parameter> variables = net.parameters;
  for (const model::StateVariable& s : all.states) variables.push_back({s.name, s.type});
  for (const model::Parameter& v : variables) {
    const Tensor start = *Tensor::allocate(cpu_device(), v.type);
    model::initialise(v, /*seed=*/1, start.values<float>());
    TR_CHECK(session.variables().add(v.name, start).ok());
  }
  for (std::int64_t done = 0; done < 10000; done += 50) {
    const float lr[] = {
        static_cast<float>(model::schedule_at({.kind = "cosine", .lr = 0.05}, done, 10000).lr)};
    exec::Feeds feeds = samples(done, 50);
    feeds.emplace("lr", Tensor::from<float>(lr, {}));
    TR_CHECK(session.run(feeds, {}, all.updates()).ok());
  }
  fmt::print("test accuracy {:.1f} %\n", *session.run_one(samples(60000, 500), "correct")->data<float>() / 5);
}
