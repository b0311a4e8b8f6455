// The acoustic model of DistBelief (Dean et al. 2012, section 5): 11 frames of 40 features, 4 hidden layers
// of 2,560 sigmoid units, 8,192 states of phones: about 42 million parameters.
#include "trireme/model/zoo/scaled.h"

namespace trireme::model {
namespace {

graph::Value speech(LayerBuilder& l, graph::Value x, const ModelInput& in, const ModelOptions& o) {
  l.set_init("xavier");
  for (std::int64_t i = 1; i <= o.get_int("layers"); ++i)
    x = l.graph().sigmoid(l.dense(fmt::format("fc{}", i), x, scaled(2560, o)));
  return l.dense("out", x, in.num_classes);
}

ModelInput input() { return {Shape{440}, 8192}; }
constexpr OptionSpec kOptions[] = {kScaleOption, {"layers", 4, "hidden layers"}};

}  // namespace

extern constinit const ZooRow kSpeech42m{
    "speech-42m", "DistBelief's acoustic model, 4 hidden layers of 2,560 sigmoids: 41,777,152 parameters.",
    speech, input, kOptions};

}  // namespace trireme::model
