// Values that come from outside a graph (fed, stored, received, queued, in a file): their dtype and shape are
// attributes, nothing is computed.
#pragma once

#include "trireme/op/detail/infer.h"

namespace trireme::op::detail {

// The attributes `dtype` and `shape` of such a value, and its type. The shape is the OpDef's shape_attr.
AttrSpec dtype_attr();
AttrSpec shape_attr();
Types stated_type(const Attrs& attrs);
// Any dimension of the stated shape may be cut: a rank then has its own piece.
std::vector<LayoutOption> stated_layout(TypeSpan in, const Attrs& attrs);

// input and variable: a name, a dtype, a shape.
std::vector<AttrSpec> feed_attrs();
Types infer_feed(TypeSpan in, const Attrs& attrs);
cost::OpCost no_cost(TypeSpan in, TypeSpan out, const Attrs& attrs);

}  // namespace trireme::op::detail
