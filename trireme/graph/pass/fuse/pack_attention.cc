// Self-attention whose q, k and v are split from the rows of one projection works on these rows:
//   x -> split -> 3 (reshape -> transpose) -> attention -> transpose      becomes  attention_qkv(x)
//   dy -> transpose -> attention_grad -> 3 (transpose -> reshape) -> concat  becomes  attention_qkv_grad
// with casts anywhere between. Both or none; a graph without gradients has the first alone. Reshapes around
// them stay: they move nothing.
#include "trireme/graph/pass/passes.h"

#include <fmt/format.h>

#include <algorithm>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"
#include "trireme/op/sequence/attention_qkv.h"

namespace trireme::graph {
namespace {

struct Match {
  std::int32_t attention = -1, split = -1;
  Value rows;                           // what is split
  std::vector<std::int32_t> turned;     // transposes of y, back to [B, T, H, D]
  std::int32_t grad = -1, concat = -1;  // -1: there is no gradient
  Value dy;                             // [B, T, H, D]
};

class Packer : private RewritingPass {
 public:
  explicit Packer(const Graph& graph)
      : RewritingPass(graph),
        mutations_(graph),
        at_(static_cast<std::size_t>(graph.size()), -1),
        gone_(static_cast<std::size_t>(graph.size()), false) {}

  Result<Graph> run(const KernelTest& has_kernel) {
    for (std::int32_t i = 0; i < graph_.size(); ++i)
      if (graph_.node(i).is(op::kAttention)) find(i);
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      const std::int32_t match = at_[static_cast<std::size_t>(i)];
      if (match >= 0) {
        TR_RETURN_IF_ERROR(emit(matches_[static_cast<std::size_t>(match)], i));
      } else if (!gone_[static_cast<std::size_t>(i)]) {
        TR_RETURN_IF_ERROR(rewriter_.copy(i).status());
      }
    }
    TR_ASSIGN_OR_RETURN(Graph made, rewriter_.finish());
    TR_ASSIGN_OR_RETURN(const bool runs, can_run(made, has_kernel));
    return runs ? std::move(made) : graph_;
  }

 private:
  static Result<bool> can_run(const Graph& made, const KernelTest& has_kernel) {
    for (std::int32_t i = 0; has_kernel && i < made.size(); ++i) {
      const Node& node = made.node(i);
      if (node.def != &op::kAttentionQkv && node.def != &op::kAttentionQkvGrad) continue;
      TR_ASSIGN_OR_RETURN(const bool runs, has_kernel(node, input_types(made, node)));
      if (!runs) return false;
    }
    return true;
  }

  // Swaps tokens and heads.
  bool turns(std::int32_t id) const {
    return is(id, op::kTranspose) &&
           graph_.node(id).attrs.get_ints("order") == std::vector<std::int64_t>{0, 2, 1, 3};
  }
  bool cuts_rows(std::int32_t id, Value rows) const {  // split or concat along the last dimension
    const std::int64_t axis = graph_.node(id).attrs.get_int("axis");
    return axis == -1 || axis == graph_.type(rows).shape.rank() - 1;
  }
  // What v is made from by casts, of which a path may have one: two could round twice.
  Value before_casts(Value v, int& casts) const {
    for (; is(v.node, op::kCast); ++casts) v = graph_.node(v.node).inputs[0];
    return v;
  }

  // What a transpose made `v` from, or null.
  Value unturned(Value v, int& casts) const {
    v = before_casts(v, casts);
    return turns(v.node) ? graph_.node(v.node).inputs[0] : Value{};
  }
  // The output of a split that `v` [B, H, T, D] comes from, or null.
  Value part_of(Value v) const {
    int casts = 0;
    Value from = unturned(v, casts);
    if (from.is_null()) return {};
    for (from = before_casts(from, casts); is(from.node, op::kReshape); from = before_casts(from, casts))
      from = graph_.node(from.node).inputs[0];
    return casts <= 1 && is(from.node, op::kSplit) ? from : Value{};
  }

  bool find_rows(const std::vector<Value>& qkv, Match& m) const {
    const TensorType& type = graph_.type(qkv[0]);
    for (std::int32_t i = 0; i < 3; ++i) {
      const Value v = qkv[static_cast<std::size_t>(i)], part = part_of(v);
      if (part.is_null() || part.index != i || graph_.type(v) != type) return false;
      if (i > 0 && part.node != m.split) return false;
      m.split = part.node;
    }
    const Node& split = graph_.node(m.split);
    m.rows = split.inputs[0];
    const std::int64_t width = type.shape[1] * type.shape[3];
    return width > 0 && cuts_rows(m.split, m.rows) &&
           split.attrs.get_ints("sizes") == std::vector<std::int64_t>{width, width, width};
  }

  // The only reader of v, or -1.
  std::int32_t reader(Value v) const { return has_one_reader(v) ? readers(v)[0] : -1; }
  // The concat that output `part` of the gradient goes to, as its input `part`, or -1. `path`: the nodes
  // before it.
  std::int32_t concat_of(Value v, std::int32_t part, std::vector<std::int32_t>& path) const {
    int casts = 0, turned = 0;
    for (;;) {
      const std::int32_t user = reader(v);
      if (user < 0 || casts > 1 || turned > 1) return -1;
      if (is(user, op::kConcat)) {
        const Node& node = graph_.node(user);
        const bool fits = turned == 1 && node.inputs.size() == 3 && cuts_rows(user, v) &&
                          node.inputs[static_cast<std::size_t>(part)] == v;
        return fits ? user : -1;
      }
      if (turns(user))
        ++turned;
      else if (is(user, op::kCast))
        ++casts;
      else if (!is(user, op::kReshape) || turned == 0)
        return -1;
      path.push_back(user);
      v = {user, 0};
    }
  }

  bool find_grad(Match& m, std::vector<std::int32_t>& path) const {
    const Node& node = graph_.node(m.grad);
    const TensorType& type = graph_.type(node.inputs[0]);
    int casts = 0;
    m.dy = unturned(node.inputs[3], casts);
    if (m.dy.is_null() || casts > 1 || !movable(m.grad)) return false;
    for (std::int32_t i = 0; i < 3; ++i) {
      const std::int32_t concat = concat_of({m.grad, i}, i, path);
      if (concat < 0 || (i > 0 && concat != m.concat)) return false;
      m.concat = concat;
    }
    // Rows of the result as they were split, whatever is before their last dimension.
    const Shape& shape = graph_.type({m.concat, 0}).shape;
    return shape.dim(-1) == 3 * type.shape[1] * type.shape[3] &&
           !mutations_.between(m.dy, before_casts_node(node.inputs[3]), m.grad);
  }
  std::int32_t before_casts_node(Value v) const {
    int casts = 0;
    return before_casts(v, casts).node;
  }

  void find(std::int32_t id) {
    const Node& node = graph_.node(id);
    Match m;
    m.attention = id;
    if (!movable(id) || is_output({id, 0}) || !find_rows(node.inputs, m)) return;
    m.turned = readers({id, 0});
    if (!std::all_of(m.turned.begin(), m.turned.end(), [&](std::int32_t i) { return turns(i); })) return;
    std::vector<std::int32_t> path;
    for (const std::int32_t user : readers(node.inputs[0])) {
      const Node& other = graph_.node(user);
      const bool same = other.is(op::kAttentionGrad) && other.attrs == node.attrs &&
                        std::equal(node.inputs.begin(), node.inputs.end(), other.inputs.begin());
      if (!same) continue;
      if (m.grad >= 0) return;  // two gradients of one attention
      m.grad = user;
    }
    if (m.grad >= 0 && !find_grad(m, path)) return;
    if (mutations_.between(m.rows, m.split, std::max(m.attention, m.grad))) return;
    const auto number = static_cast<std::int32_t>(matches_.size());
    at_[static_cast<std::size_t>(id)] = number;
    if (m.grad >= 0) {
      at_[static_cast<std::size_t>(m.grad)] = number;
      path.push_back(m.concat);
    }
    path.insert(path.end(), m.turned.begin(), m.turned.end());
    for (const std::int32_t i : path) gone_[static_cast<std::size_t>(i)] = true;
    packed_.emplace_back();
    matches_.push_back(std::move(m));
  }

  // v of the new graph in another dtype and shape, for the old node `of`.
  Result<Value> as(Value v, const TensorType& type, const Node& of, std::string_view what) {
    const std::string name = of.name + std::string(what);
    if (rewriter_.to().type(v).dtype != type.dtype) {
      TR_ASSIGN_OR_RETURN(v, rewriter_.add(op::kCast, {v}, {{"dtype", type.dtype}},
                                           fmt::format("{}/{}", name, dtype_name(type.dtype)), of.site));
    }
    if (rewriter_.to().type(v).shape == type.shape) return v;
    const auto dims = type.shape.dims();
    return rewriter_.add(op::kReshape, {v}, {{"shape", std::vector<std::int64_t>(dims.begin(), dims.end())}},
                         name + "/reshape", of.site);
  }

  Status emit(const Match& m, std::int32_t id) {
    const Node& node = graph_.node(m.attention);
    const TensorType& q = graph_.type(node.inputs[0]);
    const std::int64_t heads = q.shape[1], width = heads * q.shape[3];
    Attrs attrs = node.attrs;
    attrs.set("heads", heads);
    Value& qkv = packed_[static_cast<std::size_t>(at_[static_cast<std::size_t>(id)])].qkv;
    Value& y = packed_[static_cast<std::size_t>(at_[static_cast<std::size_t>(id)])].y;
    if (id == m.attention) {
      TR_ASSIGN_OR_RETURN(
          qkv, as(rewriter_.at(m.rows), {q.dtype, {q.shape[0], q.shape[2], 3 * width}}, node, "/rows"));
      TR_ASSIGN_OR_RETURN(y, rewriter_.add_in_place_of(id, op::kAttentionQkv, {qkv}, std::move(attrs)));
      for (const std::int32_t turned : m.turned) {
        TR_ASSIGN_OR_RETURN(const Value now, as(y, graph_.type({turned, 0}), graph_.node(turned), "/y"));
        rewriter_.map({turned, 0}, now);
      }
      return {};
    }
    const Node& grad = graph_.node(m.grad);
    TR_ASSIGN_OR_RETURN(const Value dy,
                        as(rewriter_.at(m.dy), {q.dtype, {q.shape[0], q.shape[2], width}}, grad, "/dy"));
    std::vector<Value> inputs{qkv, y, {y.node, 1}, dy};
    TR_ASSIGN_OR_RETURN(const Value dqkv, rewriter_.add_in_place_of(id, op::kAttentionQkvGrad,
                                                                    std::move(inputs), std::move(attrs)));
    TR_ASSIGN_OR_RETURN(const Value now,
                        as(dqkv, graph_.type({m.concat, 0}), graph_.node(m.concat), "/rows"));
    rewriter_.map({m.concat, 0}, now);
    return {};
  }

  struct Packed {  // in the new graph
    Value qkv, y;
  };
  Mutations mutations_;
  std::vector<Match> matches_;
  std::vector<Packed> packed_;
  std::vector<std::int32_t> at_;  // per node that is replaced: its match, or -1
  std::vector<bool> gone_;        // whose outputs are mapped when a match is emitted
};

}  // namespace

// Self-attention that splits the rows of one projection into q, k and v, and its gradient, become
// attention_qkv and attention_qkv_grad, which read and write such rows: heads are not moved apart, and the
// gradient does not repeat the forward pass. All of them or none: where `has_kernel` says no of one, the
// graph stays as it is. Run it after gradients and cse, and dead_code after it: the moves are still there.
// Tolerant: the gradient starts from the rounded y.
extern const PassRow kPackAttention{
    .name = "pack_attention",
    .doc = "Lets attention work on the rows of its projection. After gradients.",
    .exactness = Exactness::kTolerant,
    .run = [](const Graph& g, const PassOptions& o) { return Packer(g).run(o.has_kernel); }};

}  // namespace trireme::graph
