// Questions that applicable() functions ask.
#pragma once

#include <limits>

#include "trireme/op/op.h"

namespace trireme::kernel {

inline bool all_of_dtype(const op::KernelQuery& q, DType dtype) {
  for (const TensorType& t : q.inputs)
    if (t.dtype != dtype) return false;
  for (const TensorType& t : q.outputs)
    if (t.dtype != dtype) return false;
  return true;
}
inline bool all_f32(const op::KernelQuery& q) { return all_of_dtype(q, DType::kF32); }

// Libraries count in 32 bits.
inline bool fits_int32(const op::KernelQuery& q) {
  const auto small = [](const TensorType& t) {
    return t.shape.num_elems() <= std::numeric_limits<std::int32_t>::max();
  };
  for (const TensorType& t : q.inputs)
    if (!small(t)) return false;
  for (const TensorType& t : q.outputs)
    if (!small(t)) return false;
  return true;
}

inline const float* f32_in(const op::KernelArgs& a, int i) { return a.in(i).values<float>().data(); }
inline float* f32_out(const op::KernelArgs& a, int i) { return a.out(i).values<float>().data(); }

}  // namespace trireme::kernel
