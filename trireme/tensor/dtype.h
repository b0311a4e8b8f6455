// Element types. Values are part of file and wire formats: never renumber.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trireme/base/status.h"

namespace trireme {

enum class DType : std::uint8_t {
  kF32 = 0,
  kF64 = 1,
  kBF16 = 2,
  kF16 = 3,
  kI64 = 4,
  kI32 = 5,
  kU8 = 6,
  kBool = 7
};

std::size_t dtype_size(DType dtype);
std::string_view dtype_name(DType dtype);  // "f32", "i64"...
Result<DType> parse_dtype(std::string_view name);
bool is_floating(DType dtype);

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};

}  // namespace trireme
