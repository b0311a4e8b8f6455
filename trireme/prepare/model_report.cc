#include "trireme/prepare/model_report.h"

#include <algorithm>
#include <array>
#include <set>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/storage.h"
#include "trireme/op/ops.h"

namespace trireme::prepare {
namespace {

using graph::Graph;
using graph::Value;

constexpr std::string_view kGradScope = "grad/";
constexpr std::string_view kLoss = "loss";

struct OpKind {
  std::string_view prefix;  // of op names
  std::string_view kind;
};
// The first row that fits. Gradients of products are products, those of other ops begin like them.
constexpr OpKind kOpKinds[] = {
    {"conv2d", "convolution"},
    {"locally_connected2d", "convolution"},
    {"matmul", "fully connected"},
    {"attention", "attention"},
    {"rnn", "recurrent"},
    {"lstm", "recurrent"},
    {"gru", "recurrent"},
    {"batch_norm", "normalisation"},
    {"layer_norm", "normalisation"},
    {"local_", "normalisation"},
    {"", "other"},
};

std::string_view kind_of(std::string_view op) {
  for (const OpKind& row : kOpKinds)
    if (op.starts_with(row.prefix)) return row.kind;
  return {};
}

bool is_feed(const Graph& g, std::int32_t node) { return g.node(node).def->has(op::kFeed); }

// Forward nodes outside of any layer that need labels or weights.
std::vector<bool> loss_nodes(const Graph& g) {
  std::vector<bool> depends(static_cast<std::size_t>(g.size()));
  for (const char* name : {"labels", "weights"})
    if (const auto v = g.find_input(name)) depends[static_cast<std::size_t>(v->node)] = true;
  for (std::int32_t i = 0; i < g.size(); ++i) {
    const auto& in = g.node(i).inputs;
    if (std::any_of(in.begin(), in.end(), [&](Value v) { return depends[static_cast<std::size_t>(v.node)]; }))
      depends[static_cast<std::size_t>(i)] = true;
  }
  for (std::int32_t i = 0; i < g.size(); ++i)
    if (g.node(i).name.find('/') != std::string::npos) depends[static_cast<std::size_t>(i)] = false;
  return depends;
}

// Nodes that gradients are made by, and what is made of them (scaled losses are scaled back).
std::vector<bool> backward_nodes(const Graph& g) {
  std::vector<bool> backward(static_cast<std::size_t>(g.size()));
  for (std::int32_t i = 0; i < g.size(); ++i) {
    const graph::Node& node = g.node(i);
    backward[static_cast<std::size_t>(i)] = node.name.starts_with(kGradScope) ||
                                            std::any_of(node.inputs.begin(), node.inputs.end(), [&](Value v) {
                                              return backward[static_cast<std::size_t>(v.node)];
                                            });
  }
  return backward;
}

class Namer {
 public:
  Namer(const Graph& g, const std::vector<bool>& backward, int levels) : levels_(levels) {
    const std::vector<bool> loss = loss_nodes(g);
    for (std::size_t i = 0; i < loss.size(); ++i)
      if (const std::string& name = g.node(static_cast<std::int32_t>(i)).name; !name.starts_with(kGradScope))
        by_node_[name] = loss[i] || (backward[i] && name.find('/') == std::string::npos);
  }

  // "conv1/conv2d" and "grad/conv1/conv2d/conv2d_filter_grad" belong to "conv1".
  std::string layer(const std::string& node_name) const {
    std::string forward = node_name;
    if (node_name.starts_with(kGradScope)) {
      forward = node_name.substr(kGradScope.size());
      while (!by_node_.contains(forward)) {
        const std::size_t slash = forward.rfind('/');
        if (slash == std::string::npos) return std::string(kLoss);
        forward.resize(slash);
      }
    }
    const auto at = by_node_.find(forward);
    if (at != by_node_.end() && at->second) return std::string(kLoss);
    const std::size_t slash = forward.rfind('/');
    return slash == std::string::npos ? forward : cut(forward.substr(0, slash));
  }

 private:
  std::string cut(std::string path) const {
    std::size_t at = 0;
    for (int level = 0; level < levels_; ++level) {
      at = path.find('/', at + (level > 0 ? 1 : 0));
      if (at == std::string::npos) return path;
    }
    return levels_ > 0 ? path.substr(0, at) : path;
  }

  int levels_;
  std::map<std::string, bool, std::less<>> by_node_;  // forward nodes: whether they belong to the loss
};

CriticalPath critical_path(const Graph& g, const graph::ValueMap<Value>& roots) {
  const std::vector<std::vector<std::int32_t>> before = graph::run_dependencies(g, roots);
  std::vector<CriticalPath> at(static_cast<std::size_t>(g.size()));
  CriticalPath longest;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto node = static_cast<std::int32_t>(i);
    if (graph::is_free(g, node, roots)) continue;
    for (const std::int32_t b : before[i]) {
      const CriticalPath& other = at[static_cast<std::size_t>(b)];
      at[i] = {std::max(at[i].ops, other.ops), std::max(at[i].flops, other.flops),
               std::max(at[i].depth, other.depth)};
    }
    const cost::OpCost cost = graph::node_cost(g, node);
    at[i] = {at[i].ops + 1, at[i].flops + cost.flops, at[i].depth + cost.depth};
    longest = {std::max(longest.ops, at[i].ops), std::max(longest.flops, at[i].flops),
               std::max(longest.depth, at[i].depth)};
  }
  return longest;
}

class Reporter {
 public:
  Reporter(const Graph& g, const model::ModelGraphs& model, int levels)
      : g_(g), backward_(backward_nodes(g)), namer_(g, backward_, levels), roots_(graph::storage_roots(g)) {
    for (const model::Parameter& p : model.parameters) {
      trained_.insert(p.name);
      if (const auto v = g.find_output("grad:" + p.name)) weight_grads_.insert(key(roots_[*v]));
    }
    for (std::int32_t i = 0; i < g.size(); ++i)
      for (const Value v : g.node(i).inputs)
        if (is_backward(i) && !is_backward(roots_[v].node)) kept_.insert(key(roots_[v]));
    for (const std::string_view kind : kinds()) report_.shares.push_back({kind, 0});
  }

  ModelReport run() {
    for (std::int32_t i = 0; i < g_.size(); ++i)
      if (!is_feed(g_, i) || g_.node(i).def == &op::kVariable) add(i);
    find_outputs();
    std::erase_if(report_.layers, [](const LayerReport& l) {
      return l.bytes() == 0 && l.forward.bytes == 0 && l.backward.bytes == 0;
    });
    report_.path = critical_path(g_, roots_);
    return std::move(report_);
  }

 private:
  using Key = std::pair<std::int32_t, std::int32_t>;
  static Key key(Value v) { return {v.node, v.index}; }
  bool is_backward(std::int32_t node) const { return backward_[static_cast<std::size_t>(node)]; }

  static std::vector<std::string_view> kinds() {
    std::vector<std::string_view> names;
    for (const OpKind& row : kOpKinds)
      if (std::find(names.begin(), names.end(), row.kind) == names.end()) names.push_back(row.kind);
    return names;
  }

  LayerReport& layer_of(std::int32_t node) {
    const std::string name = namer_.layer(g_.node(node).name);
    const auto [at, is_new] = index_.emplace(name, report_.layers.size());
    if (is_new) report_.layers.push_back({.name = name, .output = {}, .forward = {}, .backward = {}});
    return report_.layers[at->second];
  }

  // What a later layer reads is a layer's output; of the last one, what it makes last.
  void find_outputs() {
    for (std::int32_t i = 0; i < g_.size(); ++i) {
      if (is_backward(i) || is_feed(g_, i)) continue;
      const std::string reader = namer_.layer(g_.node(i).name);
      for (const Value v : g_.node(i).inputs)
        if (!is_feed(g_, v.node) && namer_.layer(g_.node(v.node).name) != reader)
          layer_of(v.node).output = g_.type(v);
    }
  }

  void add(std::int32_t i) {
    const graph::Node& node = g_.node(i);
    LayerReport& layer = layer_of(i);
    if (node.def == &op::kVariable) {
      const TensorType& type = node.outputs[0];
      layer.weights_bytes += static_cast<std::int64_t>(type.num_bytes());
      if (!trained_.contains(node.attrs.get_text("name"))) return;
      layer.parameters += type.shape.num_elems();
      layer.weight_grads_bytes += static_cast<std::int64_t>(type.num_bytes());
      return;
    }
    const bool backward = is_backward(i);
    if (!graph::is_free(g_, i, roots_)) {
      const cost::OpCost cost = graph::node_cost(g_, i);
      (backward ? layer.backward : layer.forward) += cost;
      (backward ? report_.backward : report_.forward) += cost;
      for (WorkShare& share : report_.shares)
        if (share.kind == kind_of(node.def->name)) share.flops += cost.flops;
    }
    if (!backward && !node.outputs.empty()) layer.output = node.outputs[0];
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
      add_value({i, k}, layer);
  }

  void add_value(Value v, LayerReport& layer) {
    if (roots_[v] != v || weight_grads_.contains(key(v))) return;
    const auto bytes = static_cast<std::int64_t>(g_.type(v).num_bytes());
    if (is_backward(v.node)) {
      layer.activation_grads_bytes += bytes;
    } else if (kept_.contains(key(v))) {
      layer.activations_bytes += bytes;
    }
  }

  const Graph& g_;
  std::vector<bool> backward_;
  Namer namer_;
  graph::ValueMap<Value> roots_;
  std::set<Key> kept_, weight_grads_;  // what the backward pass reads of the forward pass, by storage
  std::set<std::string, std::less<>> trained_;
  std::map<std::string, std::size_t> index_;
  ModelReport report_;
};

}  // namespace

Result<ModelReport> report_model(const model::ModelGraphs& graphs, std::int64_t batch, int levels) {
  TR_ASSIGN_OR_RETURN(const Graph g, graph::eliminate_dead_code(graphs.train, {}));
  ModelReport report = Reporter(g, graphs, levels).run();
  report.batch = batch;
  for (const model::Parameter& p : graphs.parameters) report.parameters += p.type.shape.num_elems();
  for (const model::Parameter& p : graphs.frozen) report.frozen += p.type.shape.num_elems();
  for (const model::Statistic& s : graphs.statistics) report.statistics += s.type.shape.num_elems();
  // A stable order with the loss last, where it belongs.
  const auto loss = std::find_if(report.layers.begin(), report.layers.end(),
                                 [](const LayerReport& l) { return l.name == kLoss; });
  if (loss != report.layers.end()) std::rotate(loss, loss + 1, report.layers.end());
  return report;
}

}  // namespace trireme::prepare
