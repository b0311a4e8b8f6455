// What the time of a node depends on, as text: for files of what was measured.
#pragma once

#include <span>
#include <string>

#include "trireme/op/op.h"

namespace trireme::op {

// " stride=2 f32[8, 3, 32, 32] f32[16, 3, 3, 3]": attributes in the order of their declaration, then types.
std::string node_text(const Attrs& attrs, std::span<const TensorType> types);

}  // namespace trireme::op
