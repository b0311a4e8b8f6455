// A sparse autoencoder: squared error of the reconstruction plus, per sample,
//   sparsity * sum over hidden units of sqrt(eps + h^2),
// the smooth L1 penalty of Le et al., "Building high-level features using large scale unsupervised learning",
// 2012, section 3 (without its pooling). It is a sum over samples, so it does not depend on shards.
#include "trireme/model/zoo/scaled.h"
#include "trireme/op/ops.h"

namespace trireme::model {
namespace {

using graph::Value;

Value autoencoder(LayerBuilder& l, Value x, const ModelInput& in, const ModelOptions& o) {
  graph::Builder& b = l.graph();
  l.set_init("xavier");
  const Value hidden = b.sigmoid(l.dense("encoder", x, o.get_int("hidden")));
  if (hidden.is_null()) return {};
  const Value eps = b.fill(1e-8, DType::kF32, {});
  const Value root = b.add_node(op::kSqrt, {b.add(b.add_node(op::kSquare, {hidden}), eps)});
  const Value sparse = b.add_node(op::kSum, {root}, {{"axes", std::vector<std::int64_t>{1}}});
  l.penalty(b.add_node(op::kScale, {sparse}, {{"factor", o.get("sparsity")}}));
  return l.dense("decoder", hidden, in.sample_shape.num_elems());
}

ModelInput input() { return {Shape{1, 28, 28}, 10, ModelTask::kReconstruct}; }
constexpr OptionSpec kOptions[] = {{"hidden", 256, "units of the code"},
                                   {"sparsity", 0.05, "weight of the penalty on the code"}};

}  // namespace

extern constinit const ZooRow kAutoencoder{
    "autoencoder", "Sparse autoencoder with 256 sigmoid units: 402,448 parameters on 28x28 images.",
    autoencoder, input, kOptions};

}  // namespace trireme::model
