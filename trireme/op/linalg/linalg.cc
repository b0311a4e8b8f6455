#include "trireme/op/linalg/linalg.h"

namespace trireme::op::detail {

Shape batch_of(const Shape& s) { return Shape(s.dims().first(idx(s.rank() - 2))); }

Status expect_square(std::string_view what, const TensorType& t) {
  TR_RETURN_IF_ERROR(expect_floating(what, t));
  if (t.shape.rank() >= 2 && t.shape.dim(-1) == t.shape.dim(-2)) return ok_status();
  return error(Code::kInvalid, "{}: got {}, expected square matrices: the last two dimensions equal", what,
               t.to_string());
}

std::vector<LayoutOption> batch_layout(TypeSpan in, const Attrs&) {
  std::vector<LayoutOption> options;
  for (int d = 0; d + 2 < in[0].shape.rank(); ++d) options.push_back({{d}, {d}});
  return options;
}

std::size_t square_bytes(const TensorType& x, int count) {
  const std::size_t n = idx(x.shape.dim(-1)), size = x.dtype == DType::kF64 ? sizeof(double) : sizeof(float);
  return idx(count) * n * n * size;
}

}  // namespace trireme::op::detail
