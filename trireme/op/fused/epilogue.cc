#include "trireme/op/fused/epilogue.h"

#include <array>

#include "trireme/op/ops.h"

namespace trireme::op::detail {

std::vector<AttrSpec> epilogue_attrs(std::vector<AttrSpec> product) {
  product.push_back({"relu", false, "the result goes through relu"});
  return product;
}

Attrs product_attrs(const OpDef& product, const Attrs& attrs) {
  Attrs own;
  for (const AttrSpec& spec : product.attrs) own.set(std::string(spec.name), *attrs.find(spec.name));
  return own;
}

Types infer_epilogue(const OpDef& product, TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const std::vector<TensorType> out,
                      infer_types(product, in.first(2), product_attrs(product, attrs)));
  return infer_types(kBiasAdd, std::array{out[0], in[2]}, {});
}

void run_epilogue(const OpDef& product, KernelArgs& a) {
  KernelArgs multiply{a.inputs.first(2), a.outputs, a.attrs, a.workspace, a.parallel};
  product.reference(multiply);
  const std::array<Tensor, 2> operands{a.out(0), a.in(2)};
  KernelArgs add{operands, a.outputs, a.attrs, {}, a.parallel};
  kBiasAdd.reference(add);
  if (!a.attrs.get_bool("relu")) return;
  KernelArgs relu{a.outputs, a.outputs, a.attrs, {}, a.parallel};
  kRelu.reference(relu);
}

cost::OpCost cost_epilogue(const OpDef& product, TypeSpan in, TypeSpan out, const Attrs& attrs) {
  cost::OpCost total = product.cost(in.first(2), out, product_attrs(product, attrs));
  total += kBiasAdd.cost(std::array{out[0], in[2]}, out, {});
  if (attrs.get_bool("relu")) total += kRelu.cost(out, out, {});
  total.bytes = io_bytes(in, out);
  return total;
}

std::vector<LayoutOption> layout_epilogue(const OpDef& product, TypeSpan in, const Attrs& attrs) {
  std::vector<LayoutOption> options;
  for (LayoutOption o : product.layout(in.first(2), product_attrs(product, attrs))) {
    if (o.rewritten || o.outputs[0] == kPartial) continue;
    o.inputs.push_back(o.outputs[0] == 1 ? 0 : kReplicate);
    options.push_back(std::move(o));
  }
  return options;
}

}  // namespace trireme::op::detail
