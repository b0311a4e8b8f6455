#include "trireme/op/detail/infer.h"

#include "trireme/op/detail/dispatch.h"

namespace trireme::op::detail {

Status expect_floating(std::string_view what, const TensorType& t) {
  if (is_float_dtype(t.dtype)) return ok_status();
  return error(Code::kInvalid, "{}: got {}, expected f32 or f64", what, t.to_string());
}

Status expect_numeric(std::string_view what, const TensorType& t) {
  if (is_numeric_dtype(t.dtype)) return ok_status();
  return error(Code::kInvalid, "{}: got {}, expected f32, f64, i64 or i32", what, t.to_string());
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

Status expect_supported(std::string_view attr, DType dtype) {
  if (is_any_dtype(dtype)) return ok_status();
  return error(Code::kInvalid, "attribute '{}': got {}, expected f32, f64, i64, i32, u8 or bool", attr,
               dtype_name(dtype));
}

double io_bytes(TypeSpan in, TypeSpan out) {
  double bytes = 0;
  for (const TensorType& t : in) bytes += static_cast<double>(t.num_bytes());
  for (const TensorType& t : out) bytes += static_cast<double>(t.num_bytes());
  return bytes;
}

cost::OpCost copy_cost(TypeSpan in, TypeSpan out, const Attrs&) {
  return {.flops = 0, .bytes = io_bytes(in, out)};
}

}  // namespace trireme::op::detail
