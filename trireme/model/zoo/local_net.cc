// Models of untied filters, L2 pooling and local contrast normalisation: a small one for digits, and the
// form of DistBelief's image model (Dean et al. 2012, section 5) and of COTS-HPC (Coates et al. 2013), here
// with labels. These two have three stages of 10x10 windows; a stage makes images a row and a column larger,
// the pooling of the first halves them and that of the others takes the row and the column off. With m maps,
// images of 3x200x200 and 1,000 classes there are
//   201^2 * m * (3 * 100 + 1) + 2 * 101^2 * m * (m * 100 + 1) + 100^2 * m * 1000 + 1000
// parameters: 5, 14, 26, 33, 53 and 69 maps make 0.16, 0.71, 2.0, 3.0, 6.9 and 11 billion, the sizes of
// COTS-HPC's figure.
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

graph::Value large_local_net(LayerBuilder& l, graph::Value x, const ModelInput& in, const ModelOptions& o) {
  for (int stage = 1; stage <= 3; ++stage) {
    const ConvSpec spec{.out = o.get_int("maps"), .window = 10, .padding = 5};
    x = l.locally_connected(fmt::format("local{}", stage), x, spec);
    x = l.local_contrast_norm(l.l2_pool(x, {.window = 2, .stride = stage == 1 ? 2 : 1}), 5);
  }
  return l.dense("fc", x, in.num_classes);
}

ModelInput large_input() { return {Shape{3, 200, 200}, 1000}; }

constexpr OptionSpec kOptions[] = {kScaleOption};
constexpr OptionSpec kLargeOptions[] = {{"maps", 24, "filters per position of every stage"}};
constexpr OptionSpec kCotsOptions[] = {{"maps", 69, "filters per position of every stage"}};

}  // namespace

extern constinit const ZooRow kLocalNet{
    "local-net", "Two stages of untied 5x5 filters, L2 pooling and contrast normalisation.", local_net,
    digits_input, kOptions};

extern constinit const ZooRow kLocalNetLarge{
    "local-net-1700m",
    "DistBelief's kind of image model, three stages of untied 10x10 filters: 1,707,502,672 parameters.",
    large_local_net, large_input, kLargeOptions};

extern constinit const ZooRow kCotsHpc{
    "cots-hpc", "The same with as many maps as COTS-HPC's largest model needs: 11,243,889,307 parameters.",
    large_local_net, large_input, kCotsOptions};

}  // namespace trireme::model
