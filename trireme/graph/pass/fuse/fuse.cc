// Elementwise fusion: producers and consumers of one shape become one `fused` node, which reads each input
// and writes each output once.
//
// Groups grow in node order. A group stands where its last member stood, so node n may join only while every
// reader of the group's values that comes before n is a member: then everything that reads the group comes
// after it, and no path leads out of a group and back in. For the same reason no variable that a member reads
// may change between that member and n.
#include <algorithm>
#include <set>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/fused/program.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

using op::detail::FusedProgram;
using op::detail::FusedStep;
using Members = std::vector<std::int32_t>;  // ascending

// The first phase that needs each node.
std::vector<std::size_t> phases_of_nodes(const Graph& graph,
                                         const std::vector<std::vector<std::string>>& outputs) {
  std::vector<std::size_t> phase(static_cast<std::size_t>(graph.size()), outputs.size());
  for (std::size_t p = outputs.size(); p-- > 0;)
    for (const std::string& name : outputs[p])
      if (const auto v = graph.find_output(name)) phase[static_cast<std::size_t>(v->node)] = p;
  for (std::int32_t i = graph.size(); i-- > 0;)
    for (const Value v : graph.node(i).inputs) {
      std::size_t& of_input = phase[static_cast<std::size_t>(v.node)];
      of_input = std::min(of_input, phase[static_cast<std::size_t>(i)]);
    }
  return phase;
}

class Fuser : private RewritingPass {
 public:
  Fuser(const Graph& graph, const PassOptions& options)
      : RewritingPass(graph),
        mutations_(graph),
        group_of_(static_cast<std::size_t>(graph.size()), -1),
        phase_(phases_of_nodes(graph, options.phases)) {}

  Result<Graph> run(bool join_results) {
    for (std::int32_t i = 0; i < graph_.size(); ++i)
      if (is_candidate(i)) grow(i);
    if (join_results) join();
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      const std::int32_t g = group_of_[static_cast<std::size_t>(i)];
      const Members* members = g < 0 ? nullptr : &groups_[static_cast<std::size_t>(g)];
      if (members == nullptr || members->size() == 1) {
        TR_RETURN_IF_ERROR(rewriter_.copy(i).status());
      } else if (members->back() == i) {
        TR_RETURN_IF_ERROR(emit(*members));
      }
    }
    return rewriter_.finish();
  }

 private:
  // By itself a sound program, so that groups of candidates are too.
  bool is_candidate(std::int32_t id) const {
    const Node& node = graph_.node(id);
    if (!movable(id) || !node.forms.is_plain() || !op::detail::is_fusable(*node.def)) return false;
    if (node.def == &op::kBiasAdd) return true;
    FusedProgram alone{.num_inputs = static_cast<int>(node.inputs.size()), .steps = {}, .outputs = {}};
    std::vector<TensorType> in;
    std::vector<int> operands;
    for (const Value v : node.inputs) {
      operands.push_back(static_cast<int>(in.size()));
      in.push_back(graph_.type(v));
    }
    alone.steps.push_back({.def = node.def, .operands = std::move(operands), .attrs = node.attrs});
    alone.outputs = {alone.num_inputs};
    return op::detail::register_types(alone, in).ok();
  }
  const Shape& shape(std::int32_t id) const { return graph_.node(id).outputs[0].shape; }
  bool in(const Members& members, std::int32_t id) const {
    return std::binary_search(members.begin(), members.end(), id);
  }

  // Puts `id` into a group with as many of its producers' groups as possible.
  void grow(std::int32_t id) {
    Members mine{id};
    std::set<std::int32_t> joined;
    for (const Value v : graph_.node(id).inputs) {
      const std::int32_t g = group_of_[static_cast<std::size_t>(v.node)];
      if (g < 0 || joined.contains(g) || shape(v.node) != shape(id)) continue;
      Members both;
      const Members& theirs = groups_[static_cast<std::size_t>(g)];
      std::merge(mine.begin(), mine.end(), theirs.begin(), theirs.end(), std::back_inserter(both));
      if (!is_sound(both)) continue;
      mine = std::move(both);
      joined.insert(g);
    }
    const auto own = static_cast<std::int32_t>(groups_.size());
    for (const std::int32_t m : mine) group_of_[static_cast<std::size_t>(m)] = own;
    groups_.push_back(std::move(mine));
  }

  // Small results that no node reads, alone in their groups, come to the last one of their shape.
  void join() {
    constexpr std::int64_t kMostElems = 1 << 21;
    std::vector<std::int32_t> open;  // groups, one of each shape
    for (std::int32_t id = 0; id < graph_.size(); ++id) {
      const std::int32_t own = group_of_[static_cast<std::size_t>(id)];
      if (own < 0 || groups_[static_cast<std::size_t>(own)].size() > 1 || !readers(Value{id, 0}).empty() ||
          shape(id).num_elems() > kMostElems)
        continue;
      const auto same = std::find_if(open.begin(), open.end(), [&](std::int32_t g) {
        return shape(groups_[static_cast<std::size_t>(g)].back()) == shape(id);
      });
      if (same == open.end()) {
        open.push_back(own);
        continue;
      }
      Members both = groups_[static_cast<std::size_t>(*same)];
      both.push_back(id);
      if (!is_sound(both)) {
        *same = own;
        continue;
      }
      group_of_[static_cast<std::size_t>(id)] = *same;
      groups_[static_cast<std::size_t>(*same)] = std::move(both);
    }
  }

  bool is_sound(const Members& members) const {
    if (members.size() > op::detail::kMaxFusedSteps ||
        inputs_of(members).size() > op::detail::kMaxFusedInputs)
      return false;
    if (!has_free_bias(members)) return false;
    for (const std::int32_t m : members)
      if (phase_of(m) != phase_of(members[0])) return false;
    const std::int32_t last = members.back();
    for (const std::int32_t m : members) {
      for (const std::int32_t user : readers(Value{m, 0}))
        if (user < last && !in(members, user)) return false;
      for (const Value v : graph_.node(m).inputs)
        if (!in(members, v.node) && mutations_.between(v, m, last)) return false;
    }
    return true;
  }

  bool leaves(const Members& members, std::int32_t m) const {
    const auto& users = readers(Value{m, 0});
    return is_output(Value{m, 0}) || users.empty() ||
           std::any_of(users.begin(), users.end(), [&](std::int32_t u) { return !in(members, u); });
  }

  std::vector<Value> inputs_of(const Members& members) const {
    std::vector<Value> inputs;
    for (const std::int32_t m : members)
      for (const Value v : graph_.node(m).inputs)
        if (!in(members, v.node) && std::find(inputs.begin(), inputs.end(), v) == inputs.end())
          inputs.push_back(v);
    return inputs;
  }

  // An input whose memory output 0 may take over comes first: of its type, and read by nobody later.
  void put_dying_input_first(const Members& members, const TensorType& out,
                             std::vector<Value>& inputs) const {
    const auto dying = std::find_if(inputs.begin(), inputs.end(), [&](Value v) {
      return graph_.type(v) == out && !graph_.node(v.node).def->has(op::kFeed) && !is_output(v) &&
             readers(v).back() <= members.back();
    });
    if (dying != inputs.end()) std::rotate(inputs.begin(), dying, dying + 1);
  }

  // The inputs in the new graph; a bias gets dimensions of size 1 after its own.
  Result<std::vector<Value>> broadcastable(const Members& members, const std::vector<Value>& inputs) {
    std::vector<Value> now = rewriter_.at(inputs);
    for (const std::int32_t m : members) {
      const Node& node = graph_.node(m);
      if (node.def != &op::kBiasAdd || node.outputs[0].shape.rank() == 2) continue;
      const auto input = std::find(inputs.begin(), inputs.end(), node.inputs[1]);
      std::vector<std::int64_t> dims(static_cast<std::size_t>(node.outputs[0].shape.rank() - 1), 1);
      dims[0] = graph_.type(node.inputs[1]).shape[0];
      TR_ASSIGN_OR_RETURN(now[static_cast<std::size_t>(input - inputs.begin())],
                          rewriter_.add(op::kReshape, {rewriter_.at(*input)}, {{"shape", std::move(dims)}},
                                        node.name + "/bias", node.site));
    }
    return now;
  }

  // A bias that is computed in the group, or that another member reads in its own shape, cannot be reshaped.
  bool has_free_bias(const Members& members) const {
    for (const std::int32_t m : members) {
      const Node& node = graph_.node(m);
      if (node.def != &op::kBiasAdd) continue;
      if (in(members, node.inputs[1].node)) return false;
      for (const std::int32_t other : readers(node.inputs[1]))
        if (other != m && in(members, other) && node.outputs[0].shape.rank() != 2) return false;
    }
    return true;
  }

  Status emit(const Members& members) {
    std::vector<std::int32_t> out;
    for (const std::int32_t m : members)
      if (leaves(members, m)) out.push_back(m);
    std::vector<Value> inputs = inputs_of(members);
    put_dying_input_first(members, graph_.type({out[0], 0}), inputs);
    TR_ASSIGN_OR_RETURN(const std::vector<Value> now, broadcastable(members, inputs));
    FusedProgram program{.num_inputs = static_cast<int>(inputs.size()), .steps = {}, .outputs = {}};
    const auto register_of = [&](Value v) {
      const auto input = std::find(inputs.begin(), inputs.end(), v);
      if (input != inputs.end()) return static_cast<int>(input - inputs.begin());
      const auto member = std::lower_bound(members.begin(), members.end(), v.node);
      return program.num_inputs + static_cast<int>(member - members.begin());
    };
    for (const std::int32_t m : members) {
      const Node& node = graph_.node(m);
      // bias_add is the same sum as add, once its vector has the shape to broadcast.
      FusedStep step{
          .def = node.def == &op::kBiasAdd ? &op::kAdd : node.def, .operands = {}, .attrs = node.attrs};
      for (const Value v : node.inputs) step.operands.push_back(register_of(v));
      program.steps.push_back(std::move(step));
    }
    for (const std::int32_t m : out) program.outputs.push_back(register_of({m, 0}));
    TR_ASSIGN_OR_RETURN(std::string text, op::detail::program_text(program));
    const Node& last = graph_.node(members.back());
    TR_ASSIGN_OR_RETURN(const Value v, rewriter_.add(op::kFused, now, {{"program", std::move(text)}},
                                                     last.name + "/fused", last.site));
    for (std::size_t k = 0; k < out.size(); ++k)
      rewriter_.map({out[k], 0}, {v.node, static_cast<std::int32_t>(k)});
    return {};
  }

  std::size_t phase_of(std::int32_t id) const { return phase_[static_cast<std::size_t>(id)]; }

  Mutations mutations_;
  std::vector<std::int32_t>
      group_of_;  // -1: none; a group that was merged into another is not named any more
  std::vector<Members> groups_;
  const std::vector<std::size_t> phase_;
};

}  // namespace

// Groups elementwise ops of one shape into `fused` nodes (op/fused). Run it after gradients: fused nodes have
// none. With `join_results` small results of one shape that no node reads (scaled statistics, gradients that
// are cast) are computed together, where the last of them stood: few launches on a device whose results leave
// together. Exact: members are evaluated by the kernels that they would have on their own.
extern const PassRow kFuse{
    .name = "fuse",
    .doc = "Makes elementwise ops of one shape one node. After gradients.",
    .exactness = Exactness::kExact,
    .run = [](const Graph& g, const PassOptions& o) { return Fuser(g, o).run(o.join_results); }};

}  // namespace trireme::graph
