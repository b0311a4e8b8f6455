// Pieces of inference: checks whose failures read "<what>: got X, expected Y".
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "trireme/op/op.h"

namespace trireme::op::detail {

using Types = Result<std::vector<TensorType>>;
using TypeSpan = std::span<const TensorType>;

inline const TensorType& at(TypeSpan types, int i) { return types[static_cast<std::size_t>(i)]; }
inline std::size_t idx(std::int64_t i) { return static_cast<std::size_t>(i); }

Status expect_floating(std::string_view what, const TensorType& t);
Status expect_numeric(std::string_view what, const TensorType& t);
Status expect_index(std::string_view what, const TensorType& t);  // i64 or i32
Status expect_dtype(std::string_view what, const TensorType& t, DType dtype);
Status expect_rank(std::string_view what, const TensorType& t, int rank);
Status expect_shape(std::string_view what, const TensorType& t, const Shape& shape);
Status expect_type(std::string_view what, const TensorType& t, const TensorType& expected);
// An int attribute of at least `low`.
Status expect_at_least(std::string_view attr, std::int64_t value, std::int64_t low);
// A shape from an ints attribute.
Result<Shape> shape_from(std::string_view attr, const std::vector<std::int64_t>& dims);

inline std::vector<std::int64_t> dims_of(const Shape& s) { return {s.dims().begin(), s.dims().end()}; }

// An int attribute `axis` that names a dimension of `t`; negative ones count from the end.
Result<int> resolve_axis(std::string_view attr, std::int64_t given, const TensorType& t);

// ---- Cost

// Compulsory traffic: inputs read once, outputs written once.
double io_bytes(TypeSpan in, TypeSpan out);
inline double elems(const TensorType& t) { return static_cast<double>(t.shape.num_elems()); }
// Depth of a tree that folds n values: ceil(log2 n), at least 1.
double log_depth(double n);
// Every element on its own: depth 1. No arithmetic, only traffic.
cost::OpCost copy_cost(TypeSpan in, TypeSpan out, const Attrs& attrs);
// `flops` operations per element of output 0, every element on its own.
cost::OpCost elementwise_cost(TypeSpan in, TypeSpan out, double flops);
// `flops` operations per element of input 0, which are folded into the elements of output 0 by trees.
cost::OpCost fold_cost(TypeSpan in, TypeSpan out, double flops);
template <int kFlops>
cost::OpCost cost_per_output(TypeSpan in, TypeSpan out, const Attrs&) {
  return elementwise_cost(in, out, kFlops);
}
template <int kFlops>
cost::OpCost cost_per_input(TypeSpan in, TypeSpan out, const Attrs&) {
  return fold_cost(in, out, kFlops);
}

}  // namespace trireme::op::detail
