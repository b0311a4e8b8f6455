// Values that come from outside a graph: name, dtype and shape are attributes, nothing is computed.
#pragma once

#include "trireme/op/detail/infer.h"

namespace trireme::op::detail {

std::vector<AttrSpec> feed_attrs();
Types infer_feed(TypeSpan in, const Attrs& attrs);
cost::OpCost no_cost(TypeSpan in, TypeSpan out, const Attrs& attrs);
std::vector<LayoutOption> feed_layout(TypeSpan in, const Attrs& attrs);

}  // namespace trireme::op::detail
