#include "trireme/model/zoo.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "trireme/model/zoo/scaled.h"

namespace trireme::model {

// Rows, one file per family.
extern const ZooRow kLenet, kLinear, kMlp;                // small.cc
extern const ZooRow kMnistCnn, kMnistMlp, kLenet5;        // mnist.cc
extern const ZooRow kSpeech42m;                           // speech.cc
extern const ZooRow kAlexnet, kAlexnet2012;               // alexnet.cc
extern const ZooRow kVgg11, kVgg16, kVgg19;               // vgg.cc
extern const ZooRow kGooglenet;                           // googlenet.cc
extern const ZooRow kResnet18, kResnet50;                 // resnet.cc
extern const ZooRow kCharLstm;                            // char_lstm.cc
extern const ZooRow kCharGpt, kGpt2124m;                  // gpt.cc
extern const ZooRow kAutoencoder;                         // autoencoder.cc
extern const ZooRow kLocalNet, kLocalNetLarge, kCotsHpc;  // local_net.cc
namespace {

// The models of the built-in job first, then by family.
const auto& rows() {
  static const std::array table{kLenet,     kLinear,   kMlp,         kMnistCnn,      kMnistMlp, kLenet5,
                                kLocalNet,  kAlexnet,  kAlexnet2012, kVgg11,         kVgg16,    kVgg19,
                                kGooglenet, kResnet18, kResnet50,    kLocalNetLarge, kCotsHpc,  kSpeech42m,
                                kCharLstm,  kCharGpt,  kGpt2124m,    kAutoencoder};
  return table;
}

const char* task_verb(ModelTask task) {
  if (task == ModelTask::kLanguage) return "continue texts (data.kind = \"text\")";
  return task == ModelTask::kReconstruct ? "reconstruct samples" : "classify samples";
}

std::string models_for(ModelTask task) {
  std::string names;
  for (const ZooRow& row : rows())
    if (row.input().task == task) names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  return names;
}

// A model that can be built for the samples it was published with, but not for these: what to do, in place of
// where in the graph it failed.
Status does_not_fit(const ZooRow& row, const ModelInput& input, const Status& why) {
  const Shape published = row.input().sample_shape, &given = input.sample_shape;
  if (published.rank() == 3 && given.rank() != 3)
    return error(
        Code::kInvalid,
        "[model] '{}' reads images (channels, height, width), but a sample has the shape {}; for tables "
        "and vectors set model.name=mlp",
        row.name, given.to_string());
  const std::size_t begin = why.message().rfind("] ");
  const std::string reason = begin == std::string::npos ? why.message() : why.message().substr(begin + 2);
  const bool small =
      given.rank() == 3 && published.rank() == 3 && (given[1] < published[1] || given[2] < published[2]);
  return error(Code::kInvalid, "[model] samples of shape {} {} '{}', which was made for {} ({}); {}",
               given.to_string(), small ? "are too small for" : "do not fit", row.name, published.to_string(),
               reason,
               small ? "use larger images, or a model such as mlp" : "use another model, such as mlp");
}

std::string models_with(std::string_view option) {
  std::string names;
  for (const ZooRow& row : rows())
    if (find_option(row.options, option) != nullptr)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  return names;
}

}  // namespace

Result<ModelOptions> complete_options(const ZooRow& row, const ModelOptions& given) {
  ModelOptions all;
  for (const OptionSpec& spec : row.options) all.items.emplace_back(spec.name, OptionValues().number(spec));
  for (const auto& [name, value] : given.items) {
    const auto at = std::find_if(all.items.begin(), all.items.end(),
                                 [&wanted = name](const auto& i) { return i.first == wanted; });
    if (at == all.items.end()) {
      const std::string known = names_of(row.options);
      if (!known.empty())
        return error(Code::kInvalid, "[model] '{}' has no option '{}'; expected one of: {}", row.name, name,
                     known);
      const std::string others = models_with(name);
      return error(Code::kInvalid, "[model] '{}' has no options, got '{}'; remove model.options{}", row.name,
                   name, others.empty() ? "" : ", or set model.name to one that has it: " + others);
    }
    if (!std::isfinite(value) || value < 0)
      return error(Code::kInvalid, "[model] option '{}' of '{}': got {}, expected 0 or more", name, row.name,
                   value);
    at->second = value;
  }
  return all;
}

double ModelOptions::get(std::string_view name) const {
  for (const auto& [key, value] : items)
    if (key == name) return value;
  TR_CHECK(false, "no option '{}'", name);
}
std::int64_t ModelOptions::get_int(std::string_view name) const {
  return static_cast<std::int64_t>(get(name));
}

std::span<const ZooRow> zoo() { return rows(); }

Result<const ZooRow*> find_model(std::string_view name) {
  std::string known;
  for (const ZooRow& row : zoo()) {
    if (name == row.name) return &row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  return error(Code::kNotFound, "[model] no model is called '{}'; expected one of: {}", name, known);
}

Result<ModelGraphs> build_model(std::string_view name, const ModelInput& input, std::int64_t shard_batch,
                                const ModelOptions& options, const GraphOptions& graph_options) {
  TR_ASSIGN_OR_RETURN(const ZooRow* row, find_model(name));
  TR_ASSIGN_OR_RETURN(const ModelOptions all, complete_options(*row, options));
  if (row->input().task != input.task)
    return error(Code::kInvalid,
                 "[model] '{}' is made to {}, but the job and its data ask to {}; expected one of: {}", name,
                 task_verb(row->input().task), task_verb(input.task), models_for(input.task));
  const auto build = [&](const ModelInput& in) {
    return build_graphs([&](LayerBuilder& l, graph::Value x) { return row->build(l, x, in, all); }, in,
                        shard_batch, graph_options);
  };
  Result<ModelGraphs> graphs = build(input);
  if (graphs.ok() || input.sample_shape == row->input().sample_shape || !build(row->input()).ok())
    return graphs;
  return does_not_fit(*row, input, graphs.status());
}

}  // namespace trireme::model
