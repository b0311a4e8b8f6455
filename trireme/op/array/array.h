// What ops that move elements share: they look at the size of an element, never at its value.
#pragma once

#include <functional>

#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"
#include "trireme/tensor/walk.h"

namespace trireme::op::detail {

using Ints = std::vector<std::int64_t>;

// to[i] = from[i] for every index i of `shape`, each side with its own first element and strides (in
// elements).
void copy_elements(DType dtype, const Shape& shape, const std::byte* from, const Strides& from_strides,
                   std::byte* to, const Strides& to_strides);
// The address of an element of t, `elements` after its first.
std::byte* address(const Tensor& t, std::int64_t elements);
void fill_zeros(const Tensor& t);               // contiguous
void fill_with(const Tensor& t, double value);  // contiguous; the value as `cast` converts it

// An ints attribute with one entry per dimension of `t`.
Status expect_per_dim(std::string_view attr, const Ints& given, const TensorType& t);
// Dimensions d of a tensor of `rank` for which `may_cut(d)`: cut alike in the input and in the output.
std::vector<LayoutOption> same_dims_layout(int rank, const std::function<bool(int)>& may_cut);
std::vector<LayoutOption> no_layout(TypeSpan in, const Attrs& attrs);
// Reads as much as it writes.
cost::OpCost copy_part_cost(TypeSpan in, TypeSpan out, const Attrs& attrs);
// Ops that look at types only: what they write.
cost::OpCost output_cost(TypeSpan in, TypeSpan out, const Attrs& attrs);

// What `slice` takes of one dimension.
struct SliceDim {
  std::int64_t begin, step, size;  // elements begin, begin + step... : `size` of them
  bool whole;                      // begin 0, end 0, step 1: all of it, whatever its size
};
std::vector<AttrSpec> slice_attrs();  // begin, end, step
Result<std::vector<SliceDim>> resolve_slice(const TensorType& x, const Attrs& attrs);
// A dimension of `size` as equal blocks of which the slice takes one, all of it: how many, or 0 where it
// takes something else.
int blocks_of_slice(const SliceDim& taken, std::int64_t size);
// What a position takes that has `own` indices of the blocks of dimension d: begin, end and step.
Attrs slice_of_block(const Attrs& attrs, const SliceDim& taken, int d, int blocks, std::int64_t own);

// Gather and scatter see x as [outer..., rows, inner...] with `rows` along `axis`; the place of the indices
// in the other tensor is [outer..., indices..., inner...].
struct RowsView {
  Shape rest;                  // outer and inner dimensions
  Strides x_rest{}, y_rest{};  // their strides in x, and in the tensor that has the indices
  std::int64_t rows = 0, x_row = 0;
};
RowsView rows_view(const Tensor& x, int axis, const Tensor& indices, const Tensor& y);
// Shape of the tensor that has the indices.
Result<Shape> gathered_shape(const Shape& x, int axis, const Shape& indices);
// Offset in y of each index, in row-major order of the indices: body(row, y_offset). Rows out of range too.
void for_each_index(const Tensor& indices, const Tensor& y, int axis,
                    const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace trireme::op::detail
