#include "trireme/op/detail/cut_graph.h"

#include "trireme/op/ops.h"

namespace trireme::op::detail {
namespace {

Value fold_over(CutBuilder& b, const OpDef& fold, Value v, const std::vector<std::int64_t>& axes) {
  return b.add(fold, {v}, {{"axes", axes}, {"keep_dims", true}});
}

std::int64_t own_size(CutBuilder& b, std::int64_t size) {
  return part_sizes(size, b.num_parts())[idx(b.position())];
}

}  // namespace

Value scalar(CutBuilder& b, DType dtype, double value) {
  return b.add(kFill, {}, {{"value", value}, {"dtype", dtype}, {"shape", std::vector<std::int64_t>{}}});
}

Value cast_to(CutBuilder& b, Value v, DType dtype) {
  return b.type(v).dtype == dtype ? v : b.add(kCast, {v}, {{"dtype", dtype}});
}

Value shaped(CutBuilder& b, Value v, const Shape& shape) {
  return b.type(v).shape == shape ? v : b.add(kReshape, {v}, {{"shape", dims_of(shape)}});
}

Value widened(CutBuilder& b, Value v) {
  return dtype_size(b.type(v).dtype) == 2 ? cast_to(b, v, DType::kF32) : v;
}

Value sum_over(CutBuilder& b, Value v, const std::vector<std::int64_t>& axes) {
  return fold_over(b, kSum, v, axes);
}

Value max_over(CutBuilder& b, Value v, const std::vector<std::int64_t>& axes) {
  return fold_over(b, kMax, v, axes);
}

Value whole_sum_over(CutBuilder& b, Value v, const std::vector<std::int64_t>& axes) {
  return b.reduce(sum_over(b, v, axes), kPartial);
}

Value whole_max_over(CutBuilder& b, Value v, const std::vector<std::int64_t>& axes) {
  return b.reduce(max_over(b, v, axes), kPartialMax);
}

Value local_indices(CutBuilder& b, Value indices, std::int64_t size) {
  return b.add(kSub, {indices, cast_to(b, b.begin_of(size), b.type(indices).dtype)});
}

Value own_indices(CutBuilder& b, std::int64_t size) {
  const Value from_zero = b.add(kRange, {}, {{"limit", static_cast<double>(own_size(b, size))}});
  return b.add(kAdd, {from_zero, b.begin_of(size)});
}

Value own_part(CutBuilder& b, Value whole, int dim) {
  const Value rows = own_indices(b, b.type(whole).shape[dim]);
  return b.add(kGather, {whole, rows}, {{"axis", std::int64_t{dim}}});
}

}  // namespace trireme::op::detail
