// What layer_norm and its gradient share.
#pragma once

#include "trireme/op/nn/norm.h"

namespace trireme::op::detail {

std::vector<AttrSpec> layer_norm_attrs();  // num_axes, eps
Result<NormView> layer_norm_view(const TensorType& x, const Attrs& attrs);

}  // namespace trireme::op::detail
