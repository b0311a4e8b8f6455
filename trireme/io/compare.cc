#include "trireme/io/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <type_traits>

#include "trireme/tensor/half.h"

namespace trireme::io {
namespace {

// Calls fn with a value of the element type.
template <typename Fn>
void visit_type(DType dtype, const Fn& fn) {
  switch (dtype) {
    case DType::kF32:
      return fn(float{});
    case DType::kF64:
      return fn(double{});
    case DType::kBF16:
      return fn(BFloat16::from_bits(0));
    case DType::kF16:
      return fn(Float16::from_bits(0));
    case DType::kI64:
      return fn(std::int64_t{});
    case DType::kI32:
      return fn(std::int32_t{});
    case DType::kU8:
    case DType::kBool:
      return fn(std::uint8_t{});
  }
}

// A host tensor in row-major order, copied where it is not.
Tensor rows_of(const Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  Tensor rows = *Tensor::allocate(cpu_device(), tensor.type());
  copy_to_contiguous(tensor, rows);
  return rows;
}

template <typename T>
T element(const Tensor& rows, std::size_t i) {
  T value = T();
  std::memcpy(&value, rows.raw() + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
double as_double(T value) {
  if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(value);
  return static_cast<double>(static_cast<float>(value));
}

template <typename T>
void compare_elements(const Tensor& a, const Tensor& b, TensorDiff& out) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto n = static_cast<std::size_t>(a.shape().num_elems());
  for (std::size_t i = 0; i < n; ++i) {
    if (std::memcmp(a.raw() + i * sizeof(T), b.raw() + i * sizeof(T), sizeof(T)) == 0) continue;
    ++out.num_different;
    const double x = as_double(element<T>(a, i)), y = as_double(element<T>(b, i));
    const double larger = std::max(std::abs(x), std::abs(y));
    const bool finite = std::isfinite(x) && std::isfinite(y);
    const double difference = finite ? std::abs(x - y) : kInfinity;
    out.max_abs = std::max(out.max_abs, difference);
    out.max_relative = std::max(out.max_relative, !finite ? kInfinity : larger > 0 ? difference / larger : 0);
  }
}

void compare(const Tensor& first, const Tensor& second, TensorDiff& out) {
  if (out.first != out.second) {
    out.relation = TensorRelation::kOtherType;
    return;
  }
  const Tensor a = rows_of(first), b = rows_of(second);
  const std::size_t bytes = a.type().num_bytes();
  if (bytes == 0 || std::memcmp(a.raw(), b.raw(), bytes) == 0) return;
  out.relation = TensorRelation::kDifferent;
  visit_type(a.dtype(), [&](auto sample) { compare_elements<decltype(sample)>(a, b, out); });
}

}  // namespace

NonFiniteCount count_non_finite(const Tensor& tensor) {
  NonFiniteCount count;
  if (!is_floating(tensor.dtype())) return count;
  const Tensor rows = rows_of(tensor);
  visit_type(rows.dtype(), [&](auto sample) {
    const auto n = static_cast<std::size_t>(rows.shape().num_elems());
    for (std::size_t i = 0; i < n; ++i) {
      const double v = as_double(element<decltype(sample)>(rows, i));
      count.nans += std::isnan(v) ? 1 : 0;
      count.infinities += std::isinf(v) ? 1 : 0;
    }
  });
  return count;
}

const char* relation_name(TensorRelation relation) {
  switch (relation) {
    case TensorRelation::kEqual:
      return "equal";
    case TensorRelation::kDifferent:
      return "different";
    case TensorRelation::kOtherType:
      return "other type";
    case TensorRelation::kOnlyFirst:
      return "only in the first";
    case TensorRelation::kOnlySecond:
      return "only in the second";
  }
  return "?";
}

std::vector<TensorDiff> diff_tensors(const NamedTensors& a, const NamedTensors& b) {
  std::map<std::string_view, const Tensor*> others;
  for (const auto& [name, tensor] : b) others.emplace(name, &tensor);
  std::vector<TensorDiff> diffs;
  for (const auto& [name, tensor] : a) {
    TensorDiff& diff = diffs.emplace_back();
    diff.name = name;
    diff.first = tensor.type();
    const auto found = others.find(name);
    diff.relation = TensorRelation::kOnlyFirst;
    if (found == others.end()) continue;
    diff.relation = TensorRelation::kEqual;
    diff.second = found->second->type();
    compare(tensor, *found->second, diff);
    others.erase(found);
  }
  for (const auto& [name, tensor] : b) {
    if (!others.contains(name)) continue;
    TensorDiff& diff = diffs.emplace_back();
    diff.name = name;
    diff.relation = TensorRelation::kOnlySecond;
    diff.second = tensor.type();
  }
  return diffs;
}

bool all_equal(const std::vector<TensorDiff>& diffs) {
  return std::all_of(diffs.begin(), diffs.end(),
                     [](const TensorDiff& d) { return d.relation == TensorRelation::kEqual; });
}

}  // namespace trireme::io
