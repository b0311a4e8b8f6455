#include "trireme/graph/pass/passes.h"

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/forms.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

Result<Graph> widen_products(const Graph& graph) {
  const Overview over(graph);
  // The cast that alone reads the product, or -1.
  const auto cast_of = [&](std::int32_t id) -> std::int32_t {
    const Value v{id, 0};
    if (!over.is(id, op::kMatmul) || dtype_size(graph.type(v).dtype) != 2 || !over.has_one_reader(v))
      return -1;
    const std::int32_t user = over.readers(v)[0];
    const bool fits = over.is(user, op::kCast) && graph.node(user).outputs[0].dtype == DType::kF32 &&
                      over.is_output({user, 0});
    return fits ? user : -1;
  };
  Rewriter rewriter(graph);
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (node.def == &op::kCast && cast_of(node.inputs[0].node) == id) continue;
    const std::int32_t cast = cast_of(id);
    if (cast < 0) {
      TR_RETURN_IF_ERROR(rewriter.copy(id).status());
      continue;
    }
    op::Forms wide = op::forms_of(2, 1);
    for (op::Form& form : wide.inputs) form.dtype = DType::kF32;
    TR_ASSIGN_OR_RETURN(const Value made,
                        rewriter.add_in_place_of(id, *node.def, rewriter.at(node.inputs), node.attrs, wide));
    rewriter.map({cast, 0}, made);
  }
  return rewriter.finish();
}

}  // namespace

// A 16-bit product that is only read as the f32 of a named output (the gradient of a weight) is not rounded
// to 16 bits before: it becomes an f32 product whose operands are cast by their forms. Run it after
// gradients. Tolerant: one rounding less.
extern const PassRow kWidenProducts{
    .name = "widen_products",
    .doc = "Keeps gradients of weights in f32 from the product on. After gradients.",
    .exactness = Exactness::kTolerant,
    .run = [](const Graph& g, const PassOptions&) { return widen_products(g); }};

}  // namespace trireme::graph
