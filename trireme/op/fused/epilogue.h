// What products with an epilogue share: product(a, b) + bias along dimension 1, then perhaps relu, as one op.
// Made by the pass `fuse_epilogues`, after gradients: they have none of their own.
#pragma once

#include "trireme/op/detail/infer.h"

namespace trireme::op::detail {

// The product's attributes and `relu`.
std::vector<AttrSpec> epilogue_attrs(std::vector<AttrSpec> product);
// Back to those of the product.
Attrs product_attrs(const OpDef& product, const Attrs& attrs);

// Inputs are those of the product, then the bias.
Types infer_epilogue(const OpDef& product, TypeSpan in, const Attrs& attrs);
// The reference kernels of the parts, one after another, in the output's memory.
void run_epilogue(const OpDef& product, KernelArgs& a);
cost::OpCost cost_epilogue(const OpDef& product, TypeSpan in, TypeSpan out, const Attrs& attrs);
// The product's cuts, without those that are rewritten or leave partial sums.
std::vector<LayoutOption> layout_epilogue(const OpDef& product, TypeSpan in, const Attrs& attrs);

}  // namespace trireme::op::detail
