// From a dtype to a C++ type: the one edge where kernels become templates. A new element type is added here.
//
// Kernels load into Acc<T>, compute there, and store once: 16-bit floats compute and accumulate in float.
#pragma once

#include <cstdint>
#include <type_traits>

#include "trireme/tensor/half.h"

// The type behind f64. The suite that counts the operations of reference kernels compiles them with a
// counting scalar of the same layout (tests/op_counts); everywhere else it is double.
#ifndef TRIREME_F64
#define TRIREME_F64 double
#endif

namespace trireme::op::detail {

using F64 = TRIREME_F64;

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;
template <typename T>
inline constexpr bool kIsFloating = kIsHalf<T> || std::is_same_v<T, float> || std::is_same_v<T, F64>;

// The type in which elements of type T are computed with.
template <typename T>
using Acc = std::conditional_t<kIsHalf<T>, float, T>;

// Calls f.operator()<T>() with the type of `dtype`; reaching another dtype is a broken invariant (infer
// rejects it).
template <typename F>
void dispatch_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32:
      return f.template operator()<float>();
    case DType::kF64:
      return f.template operator()<F64>();
    case DType::kBF16:
      return f.template operator()<BFloat16>();
    case DType::kF16:
      return f.template operator()<Float16>();
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
    case DType::kU8:
      return f.template operator()<std::uint8_t>();
    default:
      return dispatch_float(dtype, f);
  }
}

template <typename F>
void dispatch_any(DType dtype, F&& f) {
  if (dtype == DType::kBool) return f.template operator()<bool>();
  return dispatch_numeric(dtype, f);
}

// By the size of an element only, for ops that move elements without looking at them.
template <typename F>
void dispatch_bits(DType dtype, F&& f) {
  switch (dtype_size(dtype)) {
    case 1:
      return f.template operator()<std::uint8_t>();
    case 2:
      return f.template operator()<std::uint16_t>();
    case 4:
      return f.template operator()<std::uint32_t>();
    default:
      return f.template operator()<std::uint64_t>();
  }
}

// Integers that index (labels, ids).
template <typename F>
void dispatch_index(DType dtype, F&& f) {
  if (dtype == DType::kI32) return f.template operator()<std::int32_t>();
  TR_CHECK(dtype == DType::kI64, "no index of {}", dtype_name(dtype));
  return f.template operator()<std::int64_t>();
}

inline bool is_float_dtype(DType d) { return is_floating(d); }
inline bool is_numeric_dtype(DType d) { return d != DType::kBool; }

}  // namespace trireme::op::detail
