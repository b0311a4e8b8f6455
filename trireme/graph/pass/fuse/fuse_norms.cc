// batch_norm with what stands around it in residual networks: one node per direction, which reads and writes
// every image once per walk. A forward group stands where its batch_norm stood, so a residual must be there
// before; a backward group stands where the gradient of relu stood.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/fused/batch_norm_relu.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

struct Forward {
  std::int32_t norm, relu, add = -1;
  Value residual = {};
};
struct Backward {
  const Forward* forward;
  std::int32_t relu_grad, norm_grad;
  std::int32_t add = -1, cast = -1;  // of two gradients of y, and of their sum in 16 bits
};

class NormFuser : private RewritingPass {
 public:
  explicit NormFuser(const Graph& graph)
      : RewritingPass(graph), mutations_(graph), gone_(static_cast<std::size_t>(graph.size()), false) {}

  Result<Graph> run() {
    for (std::int32_t i = 0; i < graph_.size(); ++i) match(i);
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      if (const auto at = forward_.find(i); at != forward_.end()) {
        TR_RETURN_IF_ERROR(emit(at->second));
      } else if (const auto back = backward_.find(i); back != backward_.end()) {
        TR_RETURN_IF_ERROR(emit(back->second));
      } else if (!gone_[static_cast<std::size_t>(i)]) {
        TR_RETURN_IF_ERROR(rewriter_.copy(i).status());
      }
    }
    return rewriter_.finish();
  }

 private:
  bool changes(std::span<const Value> values, std::int32_t first, std::int32_t last) const {
    return std::any_of(values.begin(), values.end(),
                       [&](Value v) { return mutations_.between(v, first, last); });
  }
  // A sum of two values of its own type that `reader` alone reads.
  bool is_sum_for(Value v, std::int32_t reader) const {
    if (!is(v.node, op::kAdd) || !only_for(v, reader)) return false;
    const std::vector<Value>& in = graph_.node(v.node).inputs;
    return in[0] != in[1] && graph_.type(in[0]) == graph_.type(v) && graph_.type(in[1]) == graph_.type(v);
  }

  void match(std::int32_t id) {
    if (is(id, op::kRelu)) match_forward(id);
    if (is(id, op::kReluGrad)) match_backward(id);
  }

  void match_forward(std::int32_t relu) {
    const Value x = graph_.node(relu).inputs[0];
    if (is(x.node, op::kBatchNorm) && x.index == 0 && only_for(x, relu)) keep({x.node, relu});
    if (!is_sum_for(x, relu)) return;
    std::array<Value, 2> parts{graph_.node(x.node).inputs[0], graph_.node(x.node).inputs[1]};
    if (parts[0].node > parts[1].node) std::swap(parts[0], parts[1]);
    const auto [residual, normed] = parts;
    if (is(normed.node, op::kBatchNorm) && normed.index == 0 && only_for(normed, x.node) &&
        residual.node < normed.node && !mutations_.between(residual, normed.node, x.node))
      keep({normed.node, relu, x.node, residual});
  }
  void keep(const Forward& f) {
    forward_.emplace(f.norm, f);
    norm_of_.emplace(f.relu, f.norm);
    gone_[static_cast<std::size_t>(f.relu)] = true;
    if (f.add >= 0) gone_[static_cast<std::size_t>(f.add)] = true;
  }

  void match_backward(std::int32_t id) {
    const auto known = norm_of_.find(graph_.node(id).inputs[1].node);
    if (known == norm_of_.end()) return;
    const Forward& f = forward_.at(known->second);
    const Node& norm = graph_.node(f.norm);
    const std::vector<Value> seen{norm.inputs[0], norm.inputs[1], {f.norm, 1}, {f.norm, 2}, {id, 0}};
    const auto& users = readers(Value{id, 0});
    const auto user = std::find_if(users.begin(), users.end(), [&](std::int32_t u) {
      return is(u, op::kBatchNormGrad) && graph_.node(u).inputs == seen && graph_.node(u).attrs == norm.attrs;
    });
    if (user == users.end() || changes(norm.inputs, f.norm, *user)) return;
    if (f.residual.is_null() && !only_for({id, 0}, *user)) return;
    Backward b{&f, id, *user};
    const Value dy = graph_.node(id).inputs[0];
    const bool is_cast = is(dy.node, op::kCast) && only_for(dy, id);
    const Value sum = is_cast ? graph_.node(dy.node).inputs[0] : dy;
    if (!f.residual.is_null() && is_sum_for(sum, is_cast ? dy.node : id) &&
        !changes(graph_.node(sum.node).inputs, sum.node, id)) {
      b.add = sum.node;
      gone_[static_cast<std::size_t>(sum.node)] = true;
      if (is_cast) gone_[static_cast<std::size_t>(b.cast = dy.node)] = true;
    }
    gone_[static_cast<std::size_t>(b.norm_grad)] = true;
    backward_.emplace(id, b);
  }

  Status emit(const Forward& f) {
    const Node& norm = graph_.node(f.norm);
    std::vector<Value> inputs = norm.inputs;
    if (!f.residual.is_null()) inputs.push_back(f.residual);
    TR_ASSIGN_OR_RETURN(const Value made, rewriter_.add_in_place_of(f.norm, op::kBatchNormRelu,
                                                                    rewriter_.at(inputs), norm.attrs));
    rewriter_.map({f.relu, 0}, made);
    for (const std::int32_t k : {1, 2}) rewriter_.map({f.norm, k}, {made.node, k});
    return {};
  }

  Status emit(const Backward& b) {
    const Forward& f = *b.forward;
    const std::vector<Value>& norm = graph_.node(f.norm).inputs;
    const Value mean{f.norm, 1}, var{f.norm, 2}, dy = graph_.node(b.relu_grad).inputs[0];
    const bool plain = f.residual.is_null();
    std::vector<Value> inputs =
        rewriter_.at(plain ? std::vector<Value>{norm[0], norm[1], norm[2], mean, var}
                           : std::vector<Value>{norm[0], norm[1], mean, var, {f.relu, 0}});
    for (const Value part : b.add < 0 ? std::vector<Value>{dy} : graph_.node(b.add).inputs) {
      Result<Value> now = b.cast < 0 ? Result<Value>(rewriter_.at(part)) : cast_as(b.cast, part);
      if (!now.ok()) return now.status();
      inputs.push_back(*now);
    }
    TR_ASSIGN_OR_RETURN(
        const Value made,
        rewriter_.add_in_place_of(b.norm_grad, plain ? op::kBatchNormReluGrad : op::kBatchNormAddReluGrad,
                                  std::move(inputs), graph_.node(f.norm).attrs));
    for (const std::int32_t k : {0, 1, 2}) rewriter_.map({b.norm_grad, k}, {made.node, k});
    if (!plain) rewriter_.map({b.relu_grad, 0}, {made.node, 3});
    return {};
  }

  Result<Value> cast_as(std::int32_t id, Value part) {
    const Node& cast = graph_.node(id);
    std::vector<Value> inputs{rewriter_.at(part)};
    return rewriter_.add(op::kCast, std::move(inputs), cast.attrs, cast.name, cast.site);
  }

  Mutations mutations_;
  std::vector<bool> gone_;                        // part of a group that stands elsewhere
  std::map<std::int32_t, Forward> forward_;       // by norm
  std::map<std::int32_t, std::int32_t> norm_of_;  // by relu
  std::map<std::int32_t, Backward> backward_;     // by relu_grad
};

}  // namespace

// batch_norm, a residual that is added to it, and relu become batch_norm_relu; their gradients become
// batch_norm_relu_grad and batch_norm_add_relu_grad, which also adds up two gradients of y. Run it after
// gradients and cse. Tolerant: without a residual the gradient computes again where y is positive.
extern const PassRow kFuseNorms{.name = "fuse_norms",
                                .doc = "Makes batch_norm, a residual and relu one node. After gradients.",
                                .exactness = Exactness::kTolerant,
                                .run = [](const Graph& g, const PassOptions&) { return NormFuser(g).run(); }};

}  // namespace trireme::graph
