// From a dtype to a C++ type: the one edge where kernels become templates. A new element type is added here.
#pragma once

#include <cstdint>

#include "trireme/tensor/dtype.h"

namespace trireme::op::detail {

// Calls f.operator()<T>() with the type of `dtype`; reaching another dtype is a broken invariant (infer
// rejects it).
template <typename F>
void dispatch_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32:
      return f.template operator()<float>();
    case DType::kF64:
      return f.template operator()<double>();
    default:
      TR_CHECK(false, "no floating kernel for {}", dtype_name(dtype));
  }
}

template <typename F>
void dispatch_numeric(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kI64:
      return f.template operator()<std::int64_t>();
    case DType::kI32:
      return f.template operator()<std::int32_t>();
    default:
      return dispatch_float(dtype, f);
  }
}

template <typename F>
void dispatch_any(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kU8:
      return f.template operator()<std::uint8_t>();
    case DType::kBool:
      return f.template operator()<bool>();
    default:
      return dispatch_numeric(dtype, f);
  }
}

inline bool is_float_dtype(DType d) { return d == DType::kF32 || d == DType::kF64; }
inline bool is_numeric_dtype(DType d) { return is_float_dtype(d) || d == DType::kI64 || d == DType::kI32; }
inline bool is_any_dtype(DType d) { return is_numeric_dtype(d) || d == DType::kU8 || d == DType::kBool; }

}  // namespace trireme::op::detail
