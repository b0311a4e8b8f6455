// The gradient of a recurrent layer goes forward again before it goes back. Where both are in one graph, the
// forward op keeps what the gradient needs: of lstm its gates and cell states, or bytes that only the kernels
// of both understand. Tolerant: gradients of weights are added in another order.
#include "trireme/graph/pass/passes.h"

#include <algorithm>
#include <map>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"
#include "trireme/op/sequence/lstm_kept.h"
#include "trireme/op/sequence/recurrent_kept.h"

namespace trireme::graph {
namespace {

constexpr std::size_t kInputs = 7;  // x, h0, c0, w_ih, w_hh, b_ih, b_hh

struct Ops {
  const OpDef *forward, *grad;
};

// The forward node of every gradient that has one.
std::map<std::int32_t, std::int32_t> pairs_of(const Graph& graph, const Ops& ops) {
  const Overview over(graph);
  const Mutations mutations(graph);
  std::map<std::int32_t, std::int32_t> pairs;
  std::vector<std::int32_t> forwards;
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (!over.movable(id)) continue;
    if (node.is(*ops.forward)) forwards.push_back(id);
    if (!node.is(*ops.grad)) continue;
    for (const std::int32_t forward : forwards) {
      const auto& inputs = graph.node(forward).inputs;
      const bool same = std::equal(inputs.begin(), inputs.end(), node.inputs.begin(),
                                   node.inputs.begin() + std::ssize(inputs), std::equal_to<>()) &&
                        graph.node(forward).attrs == node.attrs;
      const bool changed = std::any_of(inputs.begin(), inputs.end(),
                                       [&](Value v) { return mutations.between(v, forward, id); });
      if (same && !changed) pairs.emplace(id, forward);
    }
  }
  return pairs;
}

Result<Graph> keep_gates(const Graph& graph) {
  const std::map<std::int32_t, std::int32_t> pairs = pairs_of(graph, {&op::kLstm, &op::kLstmGrad});
  std::map<std::int32_t, std::int32_t> kept;  // the new nodes of forward ones
  for (const auto& [back, forward] : pairs) kept[forward] = -1;
  Rewriter rewriter(graph);
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    std::vector<Value> inputs = rewriter.at(node.inputs);
    const auto pair = pairs.find(id);
    const auto forward = kept.find(id);
    if (pair == pairs.end() && forward == kept.end()) {
      TR_RETURN_IF_ERROR(rewriter.copy(id, std::move(inputs), node.attrs).status());
      continue;
    }
    const op::OpDef* def = &op::kLstmKept;
    if (pair != pairs.end()) {
      def = &op::kLstmKeptGrad;
      const std::int32_t from = kept[pair->second];
      inputs = {inputs[0],      inputs[1],      inputs[3],       inputs[4],           Value{from, 0},
                Value{from, 3}, Value{from, 4}, inputs[kInputs], inputs[kInputs + 1], inputs[kInputs + 2]};
    }
    TR_ASSIGN_OR_RETURN(const Value made, rewriter.add_in_place_of(id, *def, std::move(inputs), node.attrs));
    if (forward != kept.end()) forward->second = made.node;
    for (std::int32_t k = 0; k < std::ssize(node.outputs); ++k) rewriter.map({id, k}, {made.node, k});
  }
  return rewriter.finish();
}

// Nodes of recurrent_kept in the place of forward ones.
struct Kept {
  Attrs attrs;
  std::int32_t node = -1;
};

Attrs kept_attrs(const Node& forward, const Reserve& reserve) {
  return {{"cell", std::string(op::kept_cell_name(*forward.def, forward.attrs))},
          {"bytes", reserve.bytes},
          {"algorithm", reserve.algorithm}};
}

Result<Graph> keep_reserves(const Graph& graph, const ReserveOf& reserve_of) {
  std::map<std::int32_t, std::int32_t> pairs;
  std::map<std::int32_t, Kept> kept;  // by forward node
  for (const Ops& ops :
       {Ops{&op::kRnn, &op::kRnnGrad}, Ops{&op::kLstm, &op::kLstmGrad}, Ops{&op::kGru, &op::kGruGrad}})
    for (const auto& [back, forward] : pairs_of(graph, ops)) {
      const Node& node = graph.node(forward);
      const std::optional<Reserve> reserve =
          reserve_of ? reserve_of(node, input_types(graph, node)) : Reserve{};
      if (!reserve) continue;
      pairs.emplace(back, forward);
      kept.emplace(forward, Kept{kept_attrs(node, *reserve)});
    }
  Rewriter rewriter(graph);
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    std::vector<Value> inputs = rewriter.at(node.inputs);
    const auto pair = pairs.find(id);
    const auto forward = kept.find(id);
    if (pair == pairs.end() && forward == kept.end()) {
      TR_RETURN_IF_ERROR(rewriter.copy(id, std::move(inputs), node.attrs).status());
      continue;
    }
    Kept& of = forward != kept.end() ? forward->second : kept[pair->second];
    const OpDef* def = &op::kRecurrentKept;
    if (pair != pairs.end()) {
      def = &op::kRecurrentKeptGrad;
      const Node& from = graph.node(pair->second);
      const Value y{of.node, 0}, reserve{of.node, static_cast<std::int32_t>(from.outputs.size())};
      inputs.insert(inputs.begin() + std::ssize(from.inputs), {y, reserve});
    }
    TR_ASSIGN_OR_RETURN(const Value made, rewriter.add_in_place_of(id, *def, std::move(inputs), of.attrs));
    if (forward != kept.end()) of.node = made.node;
    for (std::int32_t k = 0; k < std::ssize(node.outputs); ++k) rewriter.map({id, k}, {made.node, k});
  }
  return rewriter.finish();
}

}  // namespace

// An lstm and its gradient become lstm_kept and lstm_kept_grad: what the gradient needs is kept instead of
// computed again, for 5 T B H more elements between the two. Others stay as they are.
extern const PassRow kKeepGates{.name = "keep_gates",
                                .doc = "Keeps the gates of lstm for its gradient. After gradients.",
                                .exactness = Exactness::kTolerant,
                                .run = [](const Graph& g, const PassOptions&) { return keep_gates(g); }};

// An rnn, lstm or gru and its gradient become recurrent_kept and recurrent_kept_grad where `reserve_of` has
// an answer. Others stay as they are.
extern const PassRow kKeepReserves{
    .name = "keep_reserves",
    .doc = "Keeps bytes of a recurrent kernel's own for its gradient. After gradients.",
    .exactness = Exactness::kTolerant,
    .run = [](const Graph& g, const PassOptions& o) { return keep_reserves(g, o.reserve_of); }};

}  // namespace trireme::graph
