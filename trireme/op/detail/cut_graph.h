// Shorthands for rules that build what one position computes (OpDef::cut) as a composition of other ops.
#pragma once

#include "trireme/op/detail/infer.h"
#include "trireme/op/op.h"

namespace trireme::op::detail {

using Cut = Result<std::vector<Value>>;

// A scalar, to be broadcast.
Value scalar(CutBuilder& b, DType dtype, double value);
// `v` as another dtype or shape, or itself where it is.
Value cast_to(CutBuilder& b, Value v, DType dtype);
Value shaped(CutBuilder& b, Value v, const Shape& shape);
// 16-bit floats as f32, in which their sums are made.
Value widened(CutBuilder& b, Value v);
// Folds over dimensions, which stay with size 1.
Value sum_over(CutBuilder& b, Value v, const std::vector<std::int64_t>& axes);
Value max_over(CutBuilder& b, Value v, const std::vector<std::int64_t>& axes);
// The same over all positions: over the whole of a dimension that is cut.
Value whole_sum_over(CutBuilder& b, Value v, const std::vector<std::int64_t>& axes);
Value whole_max_over(CutBuilder& b, Value v, const std::vector<std::int64_t>& axes);

// How this position numbers its part of a dimension of `size`: indices of the whole less the first one of the
// part. Those of other parts become indices out of range.
Value local_indices(CutBuilder& b, Value indices, std::int64_t size);
// i64 [n]: the indices in the whole of this position's part of a dimension of `size`.
Value own_indices(CutBuilder& b, std::int64_t size);
// This position's part of dimension `dim` of a value that every position has.
Value own_part(CutBuilder& b, Value whole, int dim);

}  // namespace trireme::op::detail
