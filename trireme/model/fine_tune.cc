#include "trireme/model/fine_tune.h"

#include <algorithm>

#include "trireme/graph/pass/passes.h"

namespace trireme::model {
namespace {

bool is_below(std::string_view path, std::string_view layer) {
  return path.starts_with(layer) && (path.size() == layer.size() || path[layer.size()] == '/');
}

Status no_layer(const ModelGraphs& model, std::string_view layer) {
  std::string known, last;
  for (const Parameter& p : model.parameters) {
    const std::string name = p.name.substr(0, p.name.rfind('/'));
    if (name != last) known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
    last = name;
  }
  return error(Code::kNotFound, "[model] no layer '{}' has parameters; expected one of: {}", layer, known);
}

}  // namespace

Result<ModelGraphs> freeze(ModelGraphs model, std::span<const std::string> layers) {
  std::vector<Parameter> kept;
  for (const std::string& layer : layers) {
    const auto has = [&](const Parameter& p) { return is_below(p.name, layer); };
    if (std::none_of(model.parameters.begin(), model.parameters.end(), has)) return no_layer(model, layer);
  }
  for (const Parameter& p : model.parameters) {
    const bool stays =
        std::any_of(layers.begin(), layers.end(), [&](const auto& l) { return is_below(p.name, l); });
    (stays ? model.frozen : kept).push_back(p);
  }
  if (kept.empty()) return error(Code::kInvalid, "[model] freeze: no parameter is left to train");
  model.parameters = std::move(kept);
  std::vector<std::string> outputs;
  for (const auto& [name, value] : model.train.outputs()) {
    const bool gone =
        std::any_of(model.frozen.begin(), model.frozen.end(),
                    [&output = name](const Parameter& p) { return output == "grad:" + p.name; });
    if (!gone) outputs.push_back(name);
  }
  TR_ASSIGN_OR_RETURN(model.train, graph::eliminate_dead_code(model.train, outputs));
  return model;
}

Result<std::vector<Parameter>> parameters_before(const ModelGraphs& model, std::string_view layer) {
  std::vector<Parameter> before;
  for (const Parameter& p : model.parameters) {
    if (is_below(p.name, layer)) return before;
    before.push_back(p);
  }
  return no_layer(model, layer);
}

Result<graph::Graph> cut_at(const graph::Graph& eval, std::string_view layer) {
  graph::Graph cut = eval;
  for (std::int32_t i = cut.size() - 1; i >= 0; --i) {
    if (!is_below(cut.node(i).name, layer) || cut.node(i).def->has(op::kFeed)) continue;
    cut.set_output("features", {i, 0});
    return graph::eliminate_dead_code(cut, std::vector<std::string>{"features"});
  }
  return error(Code::kNotFound, "[model] cut: no node is below '{}'; inspect the graph for its names", layer);
}

}  // namespace trireme::model
