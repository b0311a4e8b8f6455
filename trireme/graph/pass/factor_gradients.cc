#include "trireme/graph/pass/factor_gradients.h"

#include <algorithm>
#include <map>

#include "trireme/graph/builder.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

bool is_product(const Graph& graph, Value v, const Overview& over) {
  const Node& node = graph.node(v.node);
  const auto matrix = [&](Value in) {
    return graph.type(in).dtype == DType::kF32 && graph.type(in).shape.rank() == 2;
  };
  const auto named = std::count_if(graph.outputs().begin(), graph.outputs().end(),
                                   [&](const auto& output) { return output.second == v; });
  return over.is(v.node, op::kMatmul) && std::all_of(node.inputs.begin(), node.inputs.end(), matrix) &&
         over.readers(v).empty() && named == 1;
}

Result<FactoredGradient> factored(const Graph& graph, const std::string& parameter, const Node& node) {
  FactoredGradient f{parameter, graph.type(node.inputs[0]), graph.type(node.inputs[1]), {}};
  Builder b(f.product);
  const Value u = b.input("u", f.u.dtype, f.u.shape), v = b.input("v", f.v.dtype, f.v.shape);
  TR_RETURN_IF_ERROR(b.status());
  TR_ASSIGN_OR_RETURN(const Value grad, f.product.add(*node.def, {u, v}, node.attrs, node.name, node.site));
  f.product.set_output("grad", grad);
  return f;
}

// A factor is often also a feed, a view, or a factor of another product; and a buffer that others still read
// is not written before backward comes to it. So it is copied, where the product was.
Result<Value> copy_of(Rewriter& r, const FactoredGradient& f, const char* which, Value old) {
  const std::string name = std::string("factor:") + which + ":" + f.parameter;
  TR_ASSIGN_OR_RETURN(const Value copy, r.add(op::kScale, {r.at(old)}, {{"factor", 1.0}}, name, ""));
  r.to().set_output(name, copy);
  return copy;
}

}  // namespace

Result<FactoredGraph> factor_gradients(const Graph& graph, std::span<const std::string> parameters) {
  const Overview over(graph);
  FactoredGraph out;
  std::map<std::int32_t, std::size_t> taken;  // node -> which
  for (const std::string& name : parameters) {
    const std::optional<Value> v = graph.find_output("grad:" + name);
    if (!v || !is_product(graph, *v, over)) continue;
    TR_ASSIGN_OR_RETURN(FactoredGradient f, factored(graph, name, graph.node(v->node)));
    taken.emplace(v->node, out.factored.size());
    out.factored.push_back(std::move(f));
  }
  Rewriter r(graph);
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const auto at = taken.find(i);
    if (at == taken.end()) {
      TR_RETURN_IF_ERROR(r.copy(i).status());
      continue;
    }
    const FactoredGradient& f = out.factored[at->second];
    TR_ASSIGN_OR_RETURN(const Value u, copy_of(r, f, "u", graph.node(i).inputs[0]));
    TR_ASSIGN_OR_RETURN(const Value v, copy_of(r, f, "v", graph.node(i).inputs[1]));
    r.to().add_control(u.node, v.node);
  }
  for (const auto& [name, v] : graph.outputs())
    if (!taken.contains(v.node)) r.to().set_output(name, r.at(v));
  out.graph = std::move(r.to());
  TR_RETURN_IF_ERROR(verify(out.graph));
  return out;
}

}  // namespace trireme::graph
