// Graphs of every op with an unknown batch: built as a template, differentiated and specialised, they equal
// the graph that is built with the batch at once. So no gradient bakes the batch into an attribute.
#include "tests/conformance/harness.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {

using graph::Graph;

// The case with its batch dimensions (those that `o` cuts) set to `batch`; null where dimension 0 is not what
// is cut.
struct Sizes {
  std::vector<TensorType> inputs;
  Attrs attrs;
};

// In one block, between any two indices.
bool is_plain(const AxisCut& cut) { return cut.blocks == 1 && cut.unit == 1; }

// Dimension 0 is what is cut, as the op itself can be, and there is something to cut.
bool cuts_batches(const LayoutOption& o, const std::vector<TensorType>& in) {
  if (o.rewritten || !std::all_of(o.outputs.begin(), o.outputs.end(), is_plain)) return false;
  bool any = false;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (o.inputs[i].dim > 0 || !is_plain(o.inputs[i])) return false;
    if (o.inputs[i] == 0 && in[i].shape[0] == 0) return false;
    any = any || o.inputs[i] == 0;
  }
  return any;
}

// The case with its batch dimensions (those that `o` cuts) set to `batch`.
Sizes with_batch(const OpCase& c, const LayoutOption& o, std::int64_t batch) {
  Sizes s{types_of(make_inputs(c, DType::kF64)), *complete_attrs(*c.def, c.attrs)};
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    if (o.inputs[i] == 0) s.inputs[i].shape.set(0, batch);
  }
  if (!c.def->shape_attr.empty() && o.outputs[0].cuts()) {
    auto dims = s.attrs.get_ints(c.def->shape_attr);
    std::int64_t& size = dims[static_cast<std::size_t>(o.outputs[0].dim)];
    if (size >= 0) size = batch;
    s.attrs.set(std::string(c.def->shape_attr), dims);
  }
  return s;
}

Result<Graph> build(const OpDef& def, const Sizes& s) {
  Graph g;
  std::vector<Value> inputs, floats, ys;
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    const TensorType& t = s.inputs[i];
    const std::vector<std::int64_t> dims(t.shape.dims().begin(), t.shape.dims().end());
    // Only variables are written.
    TR_ASSIGN_OR_RETURN(const Value v,
                        g.add(def.has(kMutates) ? kVariable : kInput, {},
                              {{"name", fmt::format("x{}", i)}, {"dtype", t.dtype}, {"shape", dims}}));
    inputs.push_back(v);
    if (is_floating(t.dtype)) floats.push_back(v);
  }
  TR_ASSIGN_OR_RETURN(const Value y, g.add(def, inputs, s.attrs));
  for (int k = 0; k < static_cast<int>(g.node(y.node).outputs.size()); ++k) {
    if (is_floating(g.type({y.node, k}).dtype)) ys.push_back({y.node, k});
  }
  g.set_output("y", y);
  if (def.grad == nullptr || ys.empty() || floats.empty()) return g;
  TR_ASSIGN_OR_RETURN(const auto grads, graph::add_gradients(g, ys, std::vector<Value>(ys.size()), floats));
  for (std::size_t i = 0; i < grads.size(); ++i) g.set_output(fmt::format("g{}", i), grads[i]);
  return g;
}

class OpTemplates : public OpConformance {};

TEST_P(OpTemplates, SpecialiseToWhatTheBatchGivesAtOnce) {
  if (c().inputs.empty()) return;
  const auto types = types_of(make_inputs(c(), DType::kF64));
  for (const LayoutOption& o : def().layout(types, attrs())) {
    if (!cuts_batches(o, types)) continue;
    const auto unknown = build(def(), with_batch(c(), o, kUnknownDim));
    ASSERT_TRUE(unknown.ok()) << unknown.status().to_string();
    for (const std::int64_t batch : {6, 12}) {
      const auto direct = build(def(), with_batch(c(), o, batch));
      ASSERT_TRUE(direct.ok()) << direct.status().to_string();
      const auto specialised = graph::specialise(*unknown, batch);
      ASSERT_TRUE(specialised.ok()) << specialised.status().to_string() << "\n" << unknown->to_text();
      EXPECT_EQ(specialised->to_text(), direct->to_text());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OpTemplates, all_cases(), name_of_case);

}  // namespace
}  // namespace trireme::op::testing
