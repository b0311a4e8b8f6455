// What ops that move elements share: they look at the size of an element, never at its value.
#pragma once

#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"
#include "trireme/tensor/walk.h"

namespace trireme::op::detail {

// to[i] = from[i] for every index i of `shape`, each side with its own first element and strides (in
// elements).
void copy_elements(DType dtype, const Shape& shape, const std::byte* from, const Strides& from_strides,
                   std::byte* to, const Strides& to_strides);

}  // namespace trireme::op::detail
