#include "trireme/comm/combine.h"

#include <type_traits>

#include "trireme/tensor/half.h"

namespace trireme::comm {
namespace {

using collective::Reduction;

struct Add {
  template <typename T>
  static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;  // wraps without undefined behaviour
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};
struct Max {
  template <typename T>
  static T of(T a, T b) {
    return a != a || a > b ? a : b;  // b NaN: not less than it, so b
  }
};
struct Min {
  template <typename T>
  static T of(T a, T b) {
    return a != a || a < b ? a : b;
  }
};

// What elements are computed in.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>, float, T>;

template <typename T, typename Op>
void apply(std::byte* dst, const std::byte* src, std::int64_t count, bool src_left) {
  auto* __restrict a = reinterpret_cast<T*>(dst);
  const auto* __restrict b = reinterpret_cast<const T*>(src);
  using W = Wide<T>;
  if (src_left)
    for (std::int64_t i = 0; i < count; ++i) a[i] = static_cast<T>(Op::template of<W>(b[i], a[i]));
  else
    for (std::int64_t i = 0; i < count; ++i) a[i] = static_cast<T>(Op::template of<W>(a[i], b[i]));
}

// Results may be operands, at the same index: vectors are safe, though the compiler cannot know it.
#if defined(__clang__)
#define TR_SAME_INDEX_ONLY _Pragma("clang loop vectorize(assume_safety)")
#else
#define TR_SAME_INDEX_ONLY _Pragma("GCC ivdep")
#endif

template <typename T, typename Op>
void merge(std::byte* out, std::byte* also, const std::byte* left, const std::byte* right,
           std::int64_t count) {
  auto* o = reinterpret_cast<T*>(out);
  const auto *a = reinterpret_cast<const T*>(left), *b = reinterpret_cast<const T*>(right);
  using W = Wide<T>;
  if (also == nullptr) {
    TR_SAME_INDEX_ONLY
    for (std::int64_t i = 0; i < count; ++i) o[i] = static_cast<T>(Op::template of<W>(a[i], b[i]));
    return;
  }
  auto* t = reinterpret_cast<T*>(also);
  TR_SAME_INDEX_ONLY
  for (std::int64_t i = 0; i < count; ++i) {
    const T sum = static_cast<T>(Op::template of<W>(a[i], b[i]));
    o[i] = sum;
    t[i] = sum;
  }
}

template <typename T>
void scale(std::byte* dst, std::int64_t count, int world) {
  auto* a = reinterpret_cast<T*>(dst);
  using W = Wide<T>;
  const W divisor = static_cast<W>(world);
  for (std::int64_t i = 0; i < count; ++i) a[i] = static_cast<T>(static_cast<W>(a[i]) / divisor);
}

template <typename T>
Combine combine_of(Reduction reduction) {
  Combine c;
  if constexpr (!std::is_integral_v<T>) c.scale = scale<T>;
  c.apply = reduction == Reduction::kMax   ? apply<T, Max>
            : reduction == Reduction::kMin ? apply<T, Min>
                                           : apply<T, Add>;
  c.merge = reduction == Reduction::kMax   ? merge<T, Max>
            : reduction == Reduction::kMin ? merge<T, Min>
                                           : merge<T, Add>;
  return c;
}

Combine combine_for(DType dtype, Reduction reduction) {
  switch (dtype) {
    case DType::kF32:
      return combine_of<float>(reduction);
    case DType::kF64:
      return combine_of<double>(reduction);
    case DType::kBF16:
      return combine_of<BFloat16>(reduction);
    case DType::kF16:
      return combine_of<Float16>(reduction);
    case DType::kI64:
      return combine_of<std::int64_t>(reduction);
    case DType::kI32:
      return combine_of<std::int32_t>(reduction);
    case DType::kU8:
    case DType::kBool:  // 0 and 1
      return combine_of<std::uint8_t>(reduction);
  }
  return {};
}

}  // namespace

Result<Combine> find_combine(DType dtype, Reduction reduction) {
  const bool adds = reduction == Reduction::kSum || reduction == Reduction::kMean;
  if ((dtype == DType::kBool && adds) || (reduction == Reduction::kMean && !is_floating(dtype)))
    return error(Code::kInvalid, "[comm] no {} of {}: expected {}", collective::reduction_name(reduction),
                 dtype_name(dtype), dtype == DType::kBool ? "max (or) or min (and)" : "a floating type");
  const Combine c = combine_for(dtype, reduction);
  if (c.apply == nullptr)
    return error(Code::kInvalid, "[comm] no {} of {}", collective::reduction_name(reduction),
                 dtype_name(dtype));
  return c;
}

}  // namespace trireme::comm
