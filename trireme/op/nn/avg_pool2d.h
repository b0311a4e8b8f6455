// What avg_pool2d and its gradient share.
#pragma once

#include "trireme/op/nn/pool2d.h"

namespace trireme::op::detail {

std::vector<AttrSpec> avg_pool_attrs();  // those of pooling and count_include_pad
// What the sum over a window is divided by.
std::int64_t window_count(const PoolGeometry& g, const PoolWindow& v, bool include_pad);

// For rules that cut a side, of whose padding explicit zeros are made, which count: `v`, [N,C,H,W] with an
// element for each of this position's windows, times what the count of a window is less without padding.
Value recounted(CutBuilder& b, Value v, const PoolGeometry& g, int dim);

}  // namespace trireme::op::detail
