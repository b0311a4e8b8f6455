#include "trireme/graph/pass/passes.h"

#include <algorithm>
#include <array>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

constexpr std::array kRecurrences{&op::kRnn,      &op::kRnnGrad, &op::kLstm,
                                  &op::kLstmGrad, &op::kGru,     &op::kGruGrad};

Status lower(const Graph& graph, std::int32_t id, DType dtype, Rewriter& rewriter) {
  const Node& node = graph.node(id);
  const auto cast = [&](Value v, DType to, const char* end) {
    std::vector<Value> from{v};
    return rewriter.add(op::kCast, std::move(from), {{"dtype", to}}, node.name + end, node.site);
  };
  std::vector<Value> inputs;
  for (const Value v : rewriter.at(node.inputs)) {
    TR_ASSIGN_OR_RETURN(const Value low, cast(v, dtype, "/low"));
    inputs.push_back(low);
  }
  TR_ASSIGN_OR_RETURN(const Value made,
                      rewriter.add_in_place_of(id, *node.def, std::move(inputs), node.attrs));
  for (std::int32_t k = 0; k < std::ssize(node.outputs); ++k) {
    TR_ASSIGN_OR_RETURN(const Value wide, cast({made.node, k}, DType::kF32, "/f32"));
    rewriter.map({id, k}, wide);
  }
  return {};
}

Result<Graph> lower_recurrences(const Graph& graph, DType dtype) {
  const Overview over(graph);
  Rewriter rewriter(graph);
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const bool lowers = over.movable(id) && node.forms.is_plain() &&
                        std::find(kRecurrences.begin(), kRecurrences.end(), node.def) != kRecurrences.end() &&
                        node.outputs[0].dtype == DType::kF32;
    TR_RETURN_IF_ERROR(lowers ? lower(graph, id, dtype, rewriter) : rewriter.copy(id).status());
  }
  return rewriter.finish();
}

}  // namespace

// rnn, lstm, gru and their gradients on f32 values are computed in `dtype` (bf16 or f16), between casts: for
// devices whose kernels of them are much faster in 16 bits. States are then rounded at every step. Run it
// after gradients, cse and absorb_casts after it. Tolerant.
extern const PassRow kLowerRecurrences{
    .name = "lower_recurrences",
    .doc = "Computes recurrent layers in bf16 or f16. After gradients.",
    .exactness = Exactness::kTolerant,
    .run = [](const Graph& g, const PassOptions& o) { return lower_recurrences(g, o.dtype); }};

}  // namespace trireme::graph
