// Random graphs for properties: matrices of many small sizes, several uses, reshapes, mutated variables, host
// ops.
#pragma once

#include <string>
#include <vector>

#include "tests/graph/interpreter.h"
#include "trireme/base/rng.h"
#include "trireme/graph/builder.h"

namespace trireme::graph {

struct RandomGraph {
  Graph graph;
  Feeds feeds;
};

// `kPlain`: few ops. `kRich`: dropout, rows and scalars that broadcast, constants, stop_gradient, control
// edges. `kSmooth`: rich, and differentiable everywhere by every variable: nothing is mutated.
enum class Flavour { kPlain, kRich, kSmooth };

class RandomGraphMaker {
 public:
  RandomGraphMaker(std::uint64_t seed, bool with_hosts, Flavour flavour = Flavour::kPlain)
      : rng_(seed, 77), with_hosts_(with_hosts), flavour_(flavour), b_(out_.graph) {}

  RandomGraph make(int num_nodes) {
    for (int i = 0; i < 3; ++i) {
      add_feed(true);
      add_feed(false);
    }
    if (flavour_ != Flavour::kPlain) add_random_feeds();
    for (int i = 0; i < num_nodes; ++i) {
      if (flavour_ == Flavour::kPlain || below(2) == 0)
        add_node();
      else
        add_rich_node();
    }
    for (int i = 0; i < 4; ++i) b_.output("out" + std::to_string(i), pool_[below(pool_.size())]);
    b_.output("last", pool_.back());
    TR_CHECK(b_.status().ok(), "{}", b_.status().to_string());
    return std::move(out_);
  }

 private:
  std::size_t below(std::size_t n) { return rng_.next_below(static_cast<std::uint32_t>(n)); }
  std::int64_t dim() { return std::int64_t{1} << below(5); }

  void add_feed(bool variable) {
    const std::string name = fmt::format("{}{}", variable ? "v" : "x", pool_.size());
    const Shape shape{dim(), dim()};
    Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, shape});
    for (float& f : t.values<float>()) f = rng_.next_uniform() - 0.5F;
    out_.feeds.emplace(name, t);
    if (variable) variables_.push_back(pool_.size());
    pool_.push_back(variable ? b_.variable(name, DType::kF32, shape) : b_.input(name, DType::kF32, shape));
  }

  Value any() { return pool_[below(pool_.size())]; }
  Shape shape(Value v) { return b_.type(v).shape; }
  Value same_shape(Value v) {
    for (int tries = 0; tries < 8; ++tries)
      if (const Value w = any(); shape(w) == shape(v)) return w;
    return v;
  }

  void add_node() {
    const Value a = any();
    const Shape s = shape(a);
    switch (below(with_hosts_ ? 9 : 8)) {
      case 0:
        return pool_.push_back(b_.tanh(a));
      case 1:
        return pool_.push_back(b_.relu(a));
      case 2:
        return pool_.push_back(b_.add(a, same_shape(a)));
      case 3:
        return pool_.push_back(b_.mul(a, same_shape(a)));
      case 4:
        return pool_.push_back(b_.reshape(a, {s[1], s[0]}));
      case 5:
        return pool_.push_back(b_.tanh(b_.matmul(a, same_shape(a), false, true)));
      case 6:
        return pool_.push_back(b_.add(a, b_.fill(0.25, DType::kF32, {s[0], 1})));
      case 7:
        if (flavour_ == Flavour::kSmooth) return pool_.push_back(b_.sigmoid(a));
        return mutate();
      default:
        return pool_.push_back(
            b_.add_node(op::kAllreduce, {a}, {{"label", fmt::format("late:{}", below(4))}}));
    }
  }

  void add_random_feeds() {
    const auto scalar = [&](const std::string& name, std::int64_t value) {
      out_.feeds.emplace(name, Tensor::from<std::int64_t>(std::vector{value}, {}));
      return b_.input(name, DType::kI64, {});
    };
    key_ = scalar("key", 17);
    step_ = scalar("step", 3);
    for (const std::int64_t n : {1, 2, 4, 8, 16}) {
      const std::string name = fmt::format("ids{}", n);
      std::vector<std::int64_t> ids;
      for (std::int64_t i = 0; i < n; ++i) ids.push_back(100 + 7 * i);
      out_.feeds.emplace(name, Tensor::from<std::int64_t>(ids, {n}));
      ids_[n] = b_.input(name, DType::kI64, {n});
      Tensor row = *Tensor::allocate(cpu_device(), {DType::kF32, {n}});
      for (float& f : row.values<float>()) f = rng_.next_uniform() - 0.5F;
      out_.feeds.emplace(fmt::format("row{}", n), row);
      rows_[n] = b_.input(fmt::format("row{}", n), DType::kF32, {n});
    }
  }

  Value row(std::int64_t n) { return rows_.contains(n) ? rows_[n] : b_.fill(0.125, DType::kF32, {n}); }

  void add_rich_node() {
    const Value a = any();
    const Shape s = shape(a);
    const auto unary = [&](const OpDef& def, Attrs attrs = {}) {
      return b_.add_node(def, {a}, std::move(attrs));
    };
    switch (below(11)) {
      case 0:
        return pool_.push_back(unary(op::kScale, {{"factor", 0.5 * static_cast<double>(below(3))}}));
      case 1:
        return pool_.push_back(b_.add_node(op::kSub, {a, same_shape(a)}));
      case 2:
        return pool_.push_back(unary(op::kNeg));
      case 3:
        if (ids_.contains(s[0]))
          pool_.push_back(b_.dropout(a, key_, step_, ids_[s[0]], 0.25, static_cast<std::int64_t>(below(3))));
        return;
      case 4:  // a row, a column and a scalar
        return pool_.push_back(
            b_.mul(b_.add(a, row(s[1])), b_.add_node(op::kTanh, {b_.fill(0.75, DType::kF32, {})})));
      case 5:
        return pool_.push_back(b_.stop_gradient(a));
      case 6:
        return pool_.push_back(
            b_.add_node(op::kTranspose, {a}, {{"order", std::vector<std::int64_t>{1, 0}}}));
      case 7: {
        const Value wide = unary(op::kCast, {{"dtype", DType::kF64}});
        return pool_.push_back(b_.add_node(op::kCast, {b_.tanh(wide)}, {{"dtype", DType::kF32}}));
      }
      case 8:
        if (a.node + 1 < out_.graph.size()) out_.graph.add_control(a.node, out_.graph.size() - 1);
        return;
      case 9:
        return pool_.push_back(
            b_.relu(b_.bias_add(b_.matmul(b_.tanh(a), b_.tanh(same_shape(a)), false, true), row(s[0]))));
      default:
        return pool_.push_back(b_.sigmoid(b_.bias_add(a, row(s[1]))));
    }
  }

  // The variable's place in the pool is taken by its new value; views of the old one leave the pool.
  void mutate() {
    const std::size_t at = variables_[below(variables_.size())];
    const Value old = pool_[at];
    const Value next = b_.add_node(op::kAssignAdd, {old, b_.tanh(same_shape(old))});
    if (flavour_ != Flavour::kPlain) b_.output(fmt::format("changed{}", at), next);
    std::vector<bool> stale(static_cast<std::size_t>(out_.graph.size()), false);
    stale[static_cast<std::size_t>(old.node)] = true;
    for (std::int32_t i = old.node + 1; i < out_.graph.size(); ++i) {
      const Node& n = out_.graph.node(i);
      if ((n.def == &op::kReshape || n.def == &op::kStopGradient) &&
          stale[static_cast<std::size_t>(n.inputs[0].node)])
        stale[static_cast<std::size_t>(i)] = true;
    }
    for (Value& v : pool_)
      if (stale[static_cast<std::size_t>(v.node)]) v = next;
  }

  Philox rng_;
  bool with_hosts_;
  Flavour flavour_;
  Value key_, step_;
  std::map<std::int64_t, Value> ids_, rows_;  // by size
  RandomGraph out_;
  Builder b_;
  std::vector<Value> pool_;
  std::vector<std::size_t> variables_;
};

inline RandomGraph random_graph(std::uint64_t seed, int num_nodes, bool with_hosts,
                                Flavour flavour = Flavour::kPlain) {
  return RandomGraphMaker(seed, with_hosts, flavour).make(num_nodes);
}

}  // namespace trireme::graph
