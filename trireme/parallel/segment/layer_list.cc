#include "trireme/parallel/segment/layer_list.h"

#include <fmt/format.h>
#include <algorithm>
#include <limits>
#include <set>

#include "trireme/base/near_names.h"
#include "trireme/op/ops.h"

namespace trireme::parallel {
namespace {

using graph::Graph;
using graph::Node;

// What a core of an ordinary machine does. Backward is twice the work.
constexpr double kFlopsPerSecond = 5e10, kBytesPerSecond = 1e10, kPasses = 3;

// The outermost scope of a name; empty: it was given in none.
std::string scope_of(const std::string& name) {
  const std::size_t end = name.find('/');
  return end == std::string::npos ? std::string() : name.substr(0, end);
}

// Nodes that follow from what is fed and is no variable.
std::vector<bool> nodes_of_samples(const Graph& graph) {
  std::vector<bool> of_samples(static_cast<std::size_t>(graph.size()), false);
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    const bool follows = std::any_of(node.inputs.begin(), node.inputs.end(), [&](graph::Value v) {
      return of_samples[static_cast<std::size_t>(v.node)];
    });
    of_samples[static_cast<std::size_t>(i)] = follows || node.def == &op::kInput;
  }
  return of_samples;
}

bool is_known(const std::vector<Layer>& layers, const std::string& name) {
  return std::any_of(layers.begin(), layers.end(), [&](const Layer& l) { return l.name == name; });
}

std::vector<std::string> names_of(const LayerList& list) {
  std::vector<std::string> names;
  for (const Layer& layer : list.layers) names.push_back(layer.name);
  return names;
}

}  // namespace

LayerList layers_of(const Graph& forward) {
  const std::vector<bool> of_samples = nodes_of_samples(forward);
  std::set<std::string> with_variables;
  for (const auto& [name, v] : forward.variables()) with_variables.insert(scope_of(name));
  LayerList out;
  out.layer_of.assign(of_samples.size(), -1);
  for (std::int32_t i = 0; i < forward.size(); ++i) {
    const Node& node = forward.node(i);
    const auto at = static_cast<std::size_t>(i);
    if (!of_samples[at] || node.def->has(op::kFeed)) continue;
    std::string scope = scope_of(node.name);
    if (!with_variables.contains(scope)) scope.clear();
    if (out.layers.empty())
      out.layers.push_back({scope, i});
    else if (out.layers.back().name.empty() && !scope.empty())
      out.layers.back().name = scope;  // what stands in front of the first layer belongs to it
    else if (!scope.empty() && !is_known(out.layers, scope))
      out.layers.push_back({scope, i});
    out.layer_of[at] = static_cast<std::int32_t>(out.layers.size()) - 1;
    const cost::OpCost cost = graph::node_cost(forward, i);
    out.layers.back().seconds +=
        kPasses * std::max(cost.flops / kFlopsPerSecond, cost.bytes / kBytesPerSecond);
  }
  if (out.layers.empty()) out.layers.push_back({"model", 0});
  if (out.layers.back().name.empty()) out.layers.back().name = "model";
  return out;
}

// least[g][l]: the slowest of g + 1 segments of the first l layers, at best.
Result<Cuts> balanced_cuts(const LayerList& list, std::int32_t segments, std::span<const double> speeds) {
  const auto num_layers = static_cast<std::int32_t>(list.layers.size());
  if (segments > num_layers)
    return error(
        Code::kInvalid,
        "[job] {} segments: the model has {} layers between which it can be cut: {}; use {} stages or fewer",
        segments, num_layers, fmt::join(names_of(list), ", "), num_layers);
  std::vector<double> until(1, 0);
  for (const Layer& layer : list.layers) until.push_back(until.back() + layer.seconds);
  const auto count = static_cast<std::size_t>(num_layers);
  const auto seconds = [&](std::size_t begin, std::size_t end, std::size_t segment) {
    return (until[end] - until[begin]) / (speeds.empty() ? 1.0 : speeds[segment]);
  };
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto parts = static_cast<std::size_t>(segments);
  std::vector<std::vector<double>> least(parts, std::vector<double>(count + 1, kNever));
  std::vector<std::vector<std::size_t>> from(parts, std::vector<std::size_t>(count + 1, 0));
  for (std::size_t l = 1; l <= count; ++l) least[0][l] = seconds(0, l, 0);
  for (std::size_t g = 1; g < parts; ++g)
    for (std::size_t l = g + 1; l <= count; ++l)
      for (std::size_t begin = g; begin < l; ++begin) {
        const double slowest = std::max(least[g - 1][begin], seconds(begin, l, g));
        if (slowest < least[g][l]) least[g][l] = slowest, from[g][l] = begin;
      }
  Cuts cuts;
  for (std::size_t g = parts - 1, end = count; g > 0; --g) {
    end = from[g][end];
    cuts.layers.insert(cuts.layers.begin(), static_cast<std::int32_t>(end));
  }
  return cuts;
}

Result<Cuts> named_cuts(const Graph& forward, const LayerList& list, std::span<const std::string> names) {
  const std::vector<std::string> known = names_of(list);
  Cuts cuts;
  for (const std::string& name : names) {
    const auto at = std::find(known.begin(), known.end(), name);
    if (at == known.end()) {
      const std::string outer = name.substr(0, name.find('/'));
      const bool inside = outer != name && std::find(known.begin(), known.end(), outer) != known.end();
      bool is_node = false;
      for (std::int32_t i = 0; i < forward.size(); ++i)
        is_node = is_node || forward.node(i).name.starts_with(name);
      if (inside && is_node)
        return error(
            Code::kInvalid,
            "[job] parallel.stage_cuts: '{}' is inside of layer '{}', and models are cut between layers; "
            "use '{}'",
            name, outer, outer);
      return error(Code::kInvalid, "[job] parallel.stage_cuts: no layer is called '{}'{}; the layers are: {}",
                   name, did_you_mean(name, std::vector<std::string_view>(known.begin(), known.end())),
                   fmt::join(known, ", "));
    }
    const auto layer = static_cast<std::int32_t>(at - known.begin());
    if (layer == 0)
      return error(
          Code::kInvalid,
          "[job] parallel.stage_cuts: '{}' is the first layer, in front of which there is nothing; leave "
          "it out",
          name);
    if (!cuts.layers.empty() && layer <= cuts.layers.back())
      return error(Code::kInvalid,
                   "[job] parallel.stage_cuts: '{}' does not come behind '{}'; the layers are: {}", name,
                   known[static_cast<std::size_t>(cuts.layers.back())], fmt::join(known, ", "));
    cuts.layers.push_back(layer);
  }
  return cuts;
}

}  // namespace trireme::parallel
