// A language model of stacked LSTMs over characters (Graves 2013; Zaremba et al. 2014 for where dropout
// goes).
#include "trireme/model/zoo/scaled.h"

namespace trireme::model {
namespace {

graph::Value char_lstm(LayerBuilder& l, graph::Value x, const ModelInput& in, const ModelOptions& o) {
  const std::int64_t width = o.get_int("width");
  l.set_init("normal(0.1)");
  x = l.embedding("embedding", x, in.num_classes, width);
  for (std::int64_t i = 1; i <= o.get_int("layers"); ++i) {
    x = l.dropout(fmt::format("drop{}", i), x, o.get("dropout"));
    x = l.lstm(fmt::format("lstm{}", i), x, width);
  }
  l.set_init("xavier");
  return l.linear("out", l.dropout("drop_out", x, o.get("dropout")), in.num_classes);
}

ModelInput input() { return {Shape{128}, 65, ModelTask::kLanguage}; }
constexpr OptionSpec kOptions[] = {{"width", 256, "of the embedding and of every layer"},
                                   {"layers", 2, "LSTMs on top of each other"},
                                   {"dropout", 0.2, "fraction dropped between layers"}};

}  // namespace

extern constinit const ZooRow kCharLstm{
    "char-lstm", "Two LSTMs of 256 units over characters: 1,086,017 parameters at 65 characters.", char_lstm,
    input, kOptions};

}  // namespace trireme::model
