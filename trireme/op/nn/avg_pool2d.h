// What avg_pool2d and its gradient share.
#pragma once

#include "trireme/op/nn/pool2d.h"

namespace trireme::op::detail {

std::vector<AttrSpec> avg_pool_attrs();  // those of pooling and count_include_pad
// What the sum over a window is divided by.
std::int64_t window_count(const PoolGeometry& g, const PoolWindow& v, bool include_pad);

}  // namespace trireme::op::detail
