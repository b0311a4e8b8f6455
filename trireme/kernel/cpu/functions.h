// The loop behind the vector row of an elementwise function.
#pragma once

#include "trireme/kernel/cpu/simd/functions.h"
#include "trireme/op/op.h"

namespace trireme::kernel {

// Null where the op has no such row.
UnaryLoop function_of(const op::OpDef& def, const op::Attrs& attrs);

}  // namespace trireme::kernel
