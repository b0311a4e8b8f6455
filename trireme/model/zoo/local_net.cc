// Two stages of untied filters, L2 pooling and local contrast normalisation, the form of DistBelief's image
// model (Dean et al. 2012, section 5; Le et al. 2012), small.
#include "trireme/model/zoo/scaled.h"

namespace trireme::model {
namespace {

graph::Value local_net(LayerBuilder& l, graph::Value x, const ModelInput& in, const ModelOptions& o) {
  for (int stage = 1; stage <= 2; ++stage) {
    const ConvSpec spec{.out = scaled(8, o), .window = 5, .padding = 2};
    x = l.locally_connected(fmt::format("local{}", stage), x, spec);
    x = l.local_contrast_norm(l.l2_pool(x, {}), 5);
  }
  return l.dense("fc", x, in.num_classes);
}

constexpr OptionSpec kOptions[] = {kScaleOption};

}  // namespace

extern constinit const ZooRow kLocalNet{
    "local-net", "Two stages of untied 5x5 filters, L2 pooling and contrast normalisation.", local_net,
    digits_input, kOptions};

}  // namespace trireme::model
