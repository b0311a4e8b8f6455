#include "trireme/tensor/shape.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace trireme {
namespace {
constexpr std::int64_t kMaxElems = std::int64_t{1} << 59;

std::string dim_text(std::int64_t size) {
  if (size > kMaxElems) return fmt::format("{}", size);  // nobody's unknown batch, and sums of it overflow
  const std::int64_t times = (size + kUnknownDim / 2) / kUnknownDim, rest = size - times * kUnknownDim;
  if (times <= 0) return fmt::format("{}", size);
  std::string text = times == 1 ? "?" : fmt::format("{}*?", times);
  return rest == 0 ? text : fmt::format("{}{:+}", text, rest);
}

std::string dims_text(std::span<const std::int64_t> dims) {
  std::string text;
  for (const std::int64_t d : dims) text += (text.empty() ? "" : ", ") + dim_text(d);
  return fmt::format("[{}]", text);
}
}  // namespace

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  TR_CHECK(dims.size() <= kMaxRank, "{} dimensions", dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    TR_CHECK(dims[i] >= 0, "dimension {} is {}", i, dims[i]);
    dims_[i] = dims[i];
  }
}

Result<Shape> Shape::checked(std::span<const std::int64_t> dims) {
  if (dims.size() > kMaxRank) {
    return error(Code::kInvalid, "[shape] too many dimensions: got {} in {}, expected at most {}",
                 dims.size(), dims_text(dims), kMaxRank);
  }
  std::int64_t count =
      1;  // of the dimensions that are not zero, so that no order of multiplication overflows
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) {
      return error(Code::kInvalid, "[shape] negative dimension: got {} at position {} of {}, expected >= 0",
                   dims[i], i, dims_text(dims));
    }
    if (dims[i] == 0) continue;
    if (__builtin_mul_overflow(count, dims[i], &count) || count > kMaxElems) {
      return error(Code::kInvalid, "[shape] too many elements: got {}, expected at most 2^59",
                   dims_text(dims));
    }
  }
  return Shape(dims);
}

std::int64_t Shape::num_elems() const {
  std::int64_t count = 1;
  for (const std::int64_t d : dims()) count *= d;
  return count;
}

std::string Shape::to_string() const { return dims_text(dims()); }

std::array<std::int64_t, kMaxRank> row_major_strides(const Shape& shape) {
  std::array<std::int64_t, kMaxRank> strides{};
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<std::size_t>(i)] = step;
    step *= shape[i];
  }
  return strides;
}

Result<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  std::array<std::int64_t, kMaxRank> dims{};
  const int rank = std::max(a.rank(), b.rank());
  for (int i = 1; i <= rank; ++i) {  // from the last dimension
    const std::int64_t x = i <= a.rank() ? a.dim(-i) : 1;
    const std::int64_t y = i <= b.rank() ? b.dim(-i) : 1;
    if (x != y && x != 1 && y != 1) {
      return error(
          Code::kInvalid,
          "[shape] shapes do not broadcast: got {} and {}, expected equal sizes or 1 in dimension -{}",
          a.to_string(), b.to_string(), i);
    }
    dims[static_cast<std::size_t>(rank - i)] = x == 1 ? y : x;
  }
  return Shape::checked({dims.data(), static_cast<std::size_t>(rank)});
}

std::string TensorType::to_string() const {
  return fmt::format("{}{}", dtype_name(dtype), shape.to_string());
}

Result<TensorType> TensorType::parse(std::string_view text) {
  const auto bad = [text] {
    return error(Code::kInvalid, "[shape] no tensor type: got '{}', expected e.g. f32[32, 10] or i64[]",
                 text);
  };
  const std::size_t open = text.find('[');
  if (open == std::string_view::npos || !text.ends_with(']')) return bad();
  TR_ASSIGN_OR_RETURN(const DType dtype, parse_dtype(text.substr(0, open)));
  std::string_view rest = text.substr(open + 1, text.size() - open - 2);
  std::vector<std::int64_t> dims;
  const auto skip_spaces = [&rest] {
    while (rest.starts_with(' ')) rest.remove_prefix(1);
  };
  for (skip_spaces(); !rest.empty(); skip_spaces()) {
    std::int64_t size = 0;
    const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    if (failure != std::errc()) return bad();
    dims.push_back(size);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    skip_spaces();
    if (rest.empty()) break;
    if (!rest.starts_with(',')) return bad();
    rest.remove_prefix(1);
    skip_spaces();
    if (rest.empty()) return bad();
  }
  TR_ASSIGN_OR_RETURN(const Shape shape, Shape::checked(dims));
  return TensorType{dtype, shape};
}

}  // namespace trireme
