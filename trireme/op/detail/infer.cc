#include "trireme/op/detail/infer.h"

#include <algorithm>
#include <cmath>

#include "trireme/op/detail/dispatch.h"

namespace trireme::op::detail {

Status expect_floating(std::string_view what, const TensorType& t) {
  if (is_float_dtype(t.dtype)) return ok_status();
  return error(Code::kInvalid, "{}: got {}, expected f64, f32, bf16 or f16", what, t.to_string());
}

Status expect_numeric(std::string_view what, const TensorType& t) {
  if (is_numeric_dtype(t.dtype)) return ok_status();
  return error(Code::kInvalid, "{}: got {}, expected any dtype but bool", what, t.to_string());
}

Status expect_index(std::string_view what, const TensorType& t) {
  if (contains(kIndices, t.dtype)) return ok_status();
  return error(Code::kInvalid, "{}: got {}, expected i64 or i32", what, t.to_string());
}

Status expect_dtype(std::string_view what, const TensorType& t, DType dtype) {
  if (t.dtype == dtype) return ok_status();
  return error(Code::kInvalid, "{}: got {}, expected {}", what, t.to_string(), dtype_name(dtype));
}

Status expect_rank(std::string_view what, const TensorType& t, int rank) {
  if (t.shape.rank() == rank) return ok_status();
  return error(Code::kInvalid, "{}: got {}, expected {} dimensions", what, t.to_string(), rank);
}

Status expect_shape(std::string_view what, const TensorType& t, const Shape& shape) {
  if (t.shape == shape) return ok_status();
  return error(Code::kInvalid, "{}: got shape {}, expected {}", what, t.shape.to_string(), shape.to_string());
}

Status expect_type(std::string_view what, const TensorType& t, const TensorType& expected) {
  if (t == expected) return ok_status();
  return error(Code::kInvalid, "{}: got {}, expected {}", what, t.to_string(), expected.to_string());
}

Status expect_at_least(std::string_view attr, std::int64_t value, std::int64_t low) {
  if (value >= low) return ok_status();
  return error(Code::kInvalid, "attribute '{}': got {}, expected at least {}", attr, value, low);
}

Result<Shape> shape_from(std::string_view attr, const std::vector<std::int64_t>& dims) {
  auto shape = Shape::checked(dims);
  if (!shape.ok()) return shape.status().with_prefix(fmt::format("attribute '{}': ", attr));
  return shape;
}

Result<int> resolve_axis(std::string_view attr, std::int64_t given, const TensorType& t) {
  const int rank = t.shape.rank();
  if (given < -rank || given >= rank) {
    return error(Code::kInvalid, "attribute '{}': got {} for {}, expected a dimension in [-{}, {})", attr,
                 given, t.to_string(), rank, rank);
  }
  return static_cast<int>(given < 0 ? given + rank : given);
}

double io_bytes(TypeSpan in, TypeSpan out) {
  double bytes = 0;
  for (const TensorType& t : in) bytes += static_cast<double>(t.num_bytes());
  for (const TensorType& t : out) bytes += static_cast<double>(t.num_bytes());
  return bytes;
}

double log_depth(double n) { return n > 2 ? std::ceil(std::log2(n)) : 1; }

cost::OpCost elementwise_cost(TypeSpan in, TypeSpan out, double flops) {
  const double n = elems(out[0]);
  return {.flops = flops * n,
          .bytes = io_bytes(in, out),
          .work = std::max(flops, 1.0) * n,
          .depth = n > 0 ? 1.0 : 0};
}

cost::OpCost copy_cost(TypeSpan in, TypeSpan out, const Attrs&) {
  double moved = 0;
  for (const TensorType& t : out) moved += elems(t);
  return {.bytes = io_bytes(in, out), .work = moved, .depth = moved > 0 ? 1.0 : 0};
}

cost::OpCost fold_cost(TypeSpan in, TypeSpan out, double flops) {
  const double n = elems(in[0]), m = elems(out[0]);
  const double depth = n > 0 && m > 0 ? log_depth(n / m) : 0;
  return {.flops = flops * n, .bytes = io_bytes(in, out), .work = std::max(flops, 1.0) * n, .depth = depth};
}

}  // namespace trireme::op::detail
