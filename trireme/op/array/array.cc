#include "trireme/op/array/array.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstring>

#include "trireme/op/detail/convert.h"

namespace trireme::op::detail {

void copy_elements(DType dtype, const Shape& shape, const std::byte* from, const Strides& from_strides,
                   std::byte* to, const Strides& to_strides) {
  dispatch_bits(dtype, [&]<typename Word>() {
    const auto* source = reinterpret_cast<const Word*>(from);
    auto* target = reinterpret_cast<Word*>(to);
    walk_rows<2>(shape, {from_strides, to_strides},
                 [&](const auto& offset, const auto& stride, std::int64_t n) {
                   const Word* p = source + offset[0];
                   Word* q = target + offset[1];
                   if (stride[0] == 1 && stride[1] == 1) {
                     for (std::int64_t i = 0; i < n; ++i) q[i] = p[i];
                   } else {
                     for (std::int64_t i = 0; i < n; ++i) q[i * stride[1]] = p[i * stride[0]];
                   }
                 });
  });
}

std::byte* address(const Tensor& t, std::int64_t elements) {
  return t.raw() + elements * static_cast<std::int64_t>(dtype_size(t.dtype()));
}

void fill_zeros(const Tensor& t) {
  if (t.type().num_bytes() > 0) std::memset(t.raw(), 0, t.type().num_bytes());
}

void fill_with(const Tensor& t, double value) {
  dispatch_any(t.dtype(), [&]<typename T>() {
    const auto out = t.values<T>();
    std::fill(out.begin(), out.end(), convert<T>(value));
  });
}

Status expect_per_dim(std::string_view attr, const Ints& given, const TensorType& t) {
  if (static_cast<int>(given.size()) == t.shape.rank()) return ok_status();
  return error(Code::kInvalid, "attribute '{}': got [{}] for {}, expected one entry per dimension", attr,
               fmt::join(given, ", "), t.to_string());
}

std::vector<LayoutOption> same_dims_layout(int rank, const std::function<bool(int)>& may_cut) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < rank; ++d) {
    if (may_cut(d)) options.push_back({{d}, {d}});
  }
  return options;
}

std::vector<LayoutOption> no_layout(TypeSpan, const Attrs&) { return {}; }

cost::OpCost copy_part_cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  cost::OpCost cost = copy_cost(in, out, attrs);
  cost.bytes = 2 * static_cast<double>(out[0].num_bytes());
  return cost;
}

cost::OpCost output_cost(TypeSpan, TypeSpan out, const Attrs&) {
  const double n = elems(out[0]);
  return {.bytes = static_cast<double>(out[0].num_bytes()), .work = n, .depth = n > 0 ? 1.0 : 0};
}

}  // namespace trireme::op::detail
