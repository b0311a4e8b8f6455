#include "trireme/parallel/segment/segments.h"

#include <algorithm>
#include <map>
#include <set>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/storage.h"
#include "trireme/op/ops.h"

namespace trireme::parallel {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

constexpr std::string_view kOver = "over:", kBack = "back:";
constexpr const char* kScale = "loss_scale";

std::string crossing_name(const Graph& graph, Value v) {
  const std::string index = v.index > 0 ? fmt::format(":{}", v.index) : std::string();
  return std::string(kOver) + graph.node(v.node).name + index;
}

op::Attrs input_attrs(const std::string& name, const TensorType& type) {
  op::Attrs attrs;
  attrs.set("name", name);
  attrs.set("dtype", type.dtype);
  attrs.set("shape", std::vector<std::int64_t>(type.shape.dims().begin(), type.shape.dims().end()));
  return attrs;
}

Result<Value> add_input(Graph& graph, const std::string& name, const TensorType& type) {
  return graph.add(op::kInput, {}, input_attrs(name, type));
}

class Cutter {
 public:
  explicit Cutter(const SegmentRequest& request)
      : o_(request),
        whole_(*request.forward),
        count_(request.cuts.segments()),
        moved_(static_cast<std::size_t>(count_), graph::ValueMap<Value>(whole_)) {
    out_.segments.resize(static_cast<std::size_t>(count_));
  }

  Result<SegmentedModel> run() {
    find_trained();
    find_crossings();
    for (std::int32_t i = 0; i < whole_.size(); ++i)
      if (const std::int32_t own = segment_of(i); own >= 0) TR_RETURN_IF_ERROR(copy(i, own));
    TR_RETURN_IF_ERROR(set_outputs());
    for (std::int32_t s = 0; s < count_; ++s) TR_RETURN_IF_ERROR(add_gradients(s));
    for (const auto& [at, crossing] : crossing_of_) out_.crossings.push_back(crossing);
    std::stable_sort(out_.crossings.begin(), out_.crossings.end(),
                     [](const Crossing& a, const Crossing& b) { return a.from < b.from; });
    for (Segment& s : out_.segments) TR_RETURN_IF_ERROR(graph::verify(s.graph));
    return std::move(out_);
  }

 private:
  using Place = std::pair<std::int32_t, std::int32_t>;  // node, index
  static Place place(Value v) { return {v.node, v.index}; }
  Segment& segment(std::int32_t s) { return out_.segments[static_cast<std::size_t>(s)]; }
  Value& moved(std::int32_t s, Value v) { return moved_[static_cast<std::size_t>(s)][v]; }

  // -1: whoever needs it has it.
  std::int32_t segment_of(std::int32_t node) const {
    const std::int32_t layer = o_.layers->layer_of[static_cast<std::size_t>(node)];
    if (layer < 0) return -1;
    const auto& cuts = o_.cuts.layers;
    return static_cast<std::int32_t>(std::upper_bound(cuts.begin(), cuts.end(), layer) - cuts.begin());
  }

  // Values that follow from a trained parameter.
  void find_trained() {
    learns_.assign(static_cast<std::size_t>(whole_.size()), false);
    const std::set<std::string> trained(o_.trained.begin(), o_.trained.end());
    for (std::int32_t i = 0; i < whole_.size(); ++i) {
      const Node& node = whole_.node(i);
      bool learns = node.def == &op::kVariable && trained.contains(node.attrs.get_text("name"));
      for (const Value v : node.inputs) learns = learns || learns_[static_cast<std::size_t>(v.node)];
      learns_[static_cast<std::size_t>(i)] = learns;
    }
  }

  void cross(Value v, std::int32_t reader) {
    const std::int32_t from = segment_of(v.node);
    if (from < 0 || from == reader) return;
    Crossing& c = crossing_of_[place(v)];
    if (c.readers.empty()) {
      c.name = crossing_name(whole_, v);
      c.type = whole_.type(v);
      c.from = from;
      c.comes_back = learns_[static_cast<std::size_t>(v.node)] && is_floating(c.type.dtype);
    }
    if (c.readers.empty() || c.readers.back() < reader) c.readers.push_back(reader);
    c.last = std::max(c.last, reader);
  }

  // A node that is computed wherever it is needed reads only such nodes, so it crosses nothing.
  void find_crossings() {
    for (std::int32_t i = 0; i < whole_.size(); ++i) {
      const std::int32_t reader = segment_of(i);
      if (reader < 0) continue;
      for (const Value v : whole_.node(i).inputs) cross(v, reader);
    }
    for (const auto& [name, v] : whole_.outputs())
      if (o_.gathers_outputs) cross(v, count_ - 1);
    for (auto& [at, c] : crossing_of_) {
      std::sort(c.readers.begin(), c.readers.end());
      c.readers.erase(std::unique(c.readers.begin(), c.readers.end()), c.readers.end());
    }
  }

  // What a node of segment `s` reads, there.
  Result<Value> read(Value v, std::int32_t s) {
    if (const Value known = moved(s, v); !known.is_null()) return known;
    const std::int32_t from = segment_of(v.node);
    if (from < 0) {
      TR_RETURN_IF_ERROR(copy(v.node, s));
      return moved(s, v);
    }
    const Crossing& c = crossing_of_.at(place(v));
    TR_ASSIGN_OR_RETURN(moved(s, v), add_input(segment(s).graph, c.name, c.type));
    return moved(s, v);
  }

  Status copy(std::int32_t id, std::int32_t s) {
    const Node& node = whole_.node(id);
    std::vector<Value> inputs;
    for (const Value v : node.inputs) {
      TR_ASSIGN_OR_RETURN(const Value own, read(v, s));
      inputs.push_back(own);
    }
    TR_ASSIGN_OR_RETURN(const Value own, segment(s).graph.add_like(node, std::move(inputs)));
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
      moved(s, {id, k}) = {own.node, k};
    return {};
  }

  Status set_outputs() {
    for (const auto& [name, v] : whole_.outputs()) {
      if (name.starts_with("grad:")) continue;
      const std::int32_t s = o_.gathers_outputs ? count_ - 1 : std::max(segment_of(v.node), 0);
      TR_ASSIGN_OR_RETURN(const Value own, read(v, s));
      segment(s).graph.set_output(name, own);
      segment(s).forward.push_back(name);
    }
    for (const auto& [at, c] : crossing_of_) {
      segment(c.from).graph.set_output(c.name, moved(c.from, {at.first, at.second}));
      segment(c.from).forward.push_back(c.name);
    }
    return {};
  }

  // What gradients come in with, and what they are of.
  struct Backward {
    std::vector<Value> ys, seeds, wrt;
    std::vector<std::string> names;  // outputs, as wrt
    Value scale;                     // null: gradients of parameters are as they are
  };

  Status seed_loss(std::int32_t s, Backward& b) {
    Graph& g = segment(s).graph;
    const auto loss = g.find_output("loss");
    if (!loss) return {};
    Value y = *loss;
    if (!b.scale.is_null()) {
      TR_ASSIGN_OR_RETURN(y, g.add(op::kMul, {y, b.scale}, {}, "scaled_loss"));
    }
    b.ys.push_back(y);
    b.seeds.emplace_back();
    return {};
  }

  // A value that comes in and is needed further on has the later segments' gradient added to its own.
  Status seed_crossings(std::int32_t s, Backward& b) {
    Graph& g = segment(s).graph;
    for (const auto& [at, c] : crossing_of_) {
      const Value here = moved(s, {at.first, at.second});
      if (!c.comes_back || here.is_null() || s >= c.last) continue;
      TR_ASSIGN_OR_RETURN(const Value seed, add_input(g, c.back(), c.type));
      b.ys.push_back(here);
      b.seeds.push_back(seed);
    }
    return {};
  }

  Status add_gradients(std::int32_t s) {
    if (o_.trained.empty()) return {};
    Segment& own = segment(s);
    Backward b;
    for (const auto& [at, c] : crossing_of_)
      if (const Value here = moved(s, {at.first, at.second}); c.comes_back && s > c.from && !here.is_null()) {
        b.wrt.push_back(here);
        b.names.push_back(c.back());
      }
    const std::size_t num_back = b.wrt.size();
    for (const std::string& name : o_.trained)
      if (const auto v = own.graph.find_variable(name)) {
        b.wrt.push_back(*v);
        b.names.push_back("grad:" + name);
      }
    if (b.wrt.empty()) return {};
    if (o_.scales_loss) {
      TR_ASSIGN_OR_RETURN(b.scale, add_input(own.graph, kScale, {DType::kF32, Shape{}}));
    }
    TR_RETURN_IF_ERROR(seed_loss(s, b));
    TR_RETURN_IF_ERROR(seed_crossings(s, b));
    TR_ASSIGN_OR_RETURN(std::vector<Value> grads, graph::add_gradients(own.graph, b.ys, b.seeds, b.wrt));
    for (std::size_t i = 0; i < grads.size(); ++i) {
      const bool is_back = i < num_back;
      if (!is_back && !b.scale.is_null()) {
        TR_ASSIGN_OR_RETURN(grads[i], own.graph.add(op::kDiv, {grads[i], b.scale}, {}, "unscaled"));
      }
      own.graph.set_output(b.names[i], grads[i]);
      (is_back ? own.backward : own.weights).push_back(b.names[i]);
    }
    TR_ASSIGN_OR_RETURN(own.graph, graph::eliminate_dead_code(own.graph, {}));
    return {};
  }

  const SegmentRequest& o_;
  const Graph& whole_;
  const std::int32_t count_;
  std::vector<graph::ValueMap<Value>> moved_;  // per segment
  std::vector<bool> learns_;                   // per node
  std::map<Place, Crossing> crossing_of_;
  SegmentedModel out_;
};

}  // namespace

std::string Crossing::back() const { return std::string(kBack) + name.substr(kOver.size()); }

std::vector<const Crossing*> SegmentedModel::between(std::int32_t at) const {
  std::vector<const Crossing*> out;
  for (const Crossing& c : crossings)
    if (c.from <= at && at < c.last) out.push_back(&c);
  return out;
}

Result<SegmentedModel> cut_model(const SegmentRequest& request) { return Cutter(request).run(); }

}  // namespace trireme::parallel
