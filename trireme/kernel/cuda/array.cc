// Ops that move elements, as loops with views: see elementwise.h.
#include "trireme/kernel/cuda/array.h"

#include "trireme/op/array/array.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::kernel::cuda {
namespace {

using op::detail::idx;
using op::detail::Ints;

struct Copy {
  LoopKernel kernel;
  std::int64_t from_bytes = 0, to_bytes = 0;  // where the first element is
};

Status run_copy(CudaStream& stream, const Copy& copy, const Tensor& from, const Tensor& to) {
  std::byte* const pointers[] = {from.raw() + copy.from_bytes, to.raw() + copy.to_bytes};
  return copy.kernel.run(stream, pointers);
}

std::int64_t size_of(DType d) { return static_cast<std::int64_t>(dtype_size(d)); }

// One copy from input 0 to output 0.
Made make_single(const CudaQuery& q, std::vector<StridedDim> from, std::int64_t first = 0) {
  const TensorType& y = q.outputs[0];
  if (y.shape.num_elems() == 0) return make_nothing();
  Copy copy;
  TR_ASSIGN_OR_RETURN(copy.kernel,
                      make_copy(q.device, {q.inputs[0].dtype, std::move(from)}, {y.dtype, dims_of(y.shape)}));
  copy.from_bytes = first * size_of(q.inputs[0].dtype);
  return make_kernel([copy = std::move(copy)](const CudaArgs& a) -> Status {
    return run_copy(a.stream, copy, a.in(0), a.out(0));
  });
}

// The dims of a slice of `whole`, and its first element.
Result<std::pair<std::vector<StridedDim>, std::int64_t>> slice_dims(const TensorType& whole,
                                                                    const op::Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const auto dims, op::detail::resolve_slice(whole, attrs));
  const auto strides = row_major_strides(whole.shape);
  std::pair<std::vector<StridedDim>, std::int64_t> out;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    out.first.push_back({dims[d].size, dims[d].step * strides[d]});
    out.second += dims[d].begin * strides[d];
  }
  return out;
}

// Pieces of `whole` along an axis: the copies between it and them.
Result<std::vector<Copy>> piece_copies(CudaDevice& device, const TensorType& whole,
                                       std::span<const TensorType> pieces, int axis, bool into_whole) {
  const auto strides = row_major_strides(whole.shape);
  std::vector<Copy> copies;
  std::int64_t at = 0;
  for (const TensorType& piece : pieces) {
    Copy copy;
    if (piece.shape.num_elems() > 0) {
      std::vector<StridedDim> part;
      for (int d = 0; d < piece.shape.rank(); ++d) part.push_back({piece.shape[d], strides[idx(d)]});
      Elements from{piece.dtype, dims_of(piece.shape)}, to{whole.dtype, std::move(part)};
      if (!into_whole) std::swap(from, to);
      TR_ASSIGN_OR_RETURN(copy.kernel, make_copy(device, from, to));
      (into_whole ? copy.to_bytes : copy.from_bytes) = at * strides[idx(axis)] * size_of(whole.dtype);
    }
    at += piece.shape[axis];
    copies.push_back(std::move(copy));
  }
  return copies;
}

}  // namespace

std::vector<StridedDim> dims_of(const Shape& shape) {
  std::vector<StridedDim> dims;
  const auto strides = row_major_strides(shape);
  for (int d = 0; d < shape.rank(); ++d) dims.push_back({shape[d], strides[idx(d)]});
  return dims;
}

Result<LoopKernel> make_copy(CudaDevice& device, Elements from, Elements to) {
  ElementwiseLoop loop{.n = 1};
  for (const StridedDim& g : to.dims) loop.n *= g.size;
  const bool moved = from.dtype == to.dtype;
  loop.inputs.push_back({moved ? word_of(from.dtype) : scalar_of(from.dtype), std::move(from.dims)});
  int made = 0;
  if (!moved) {
    loop.steps.push_back({cast_expression(from.dtype, to.dtype), {0}, scalar_of(to.dtype)});
    made = 1;
  }
  loop.outputs.push_back({made, {moved ? word_of(to.dtype) : scalar_of(to.dtype), std::move(to.dims)}});
  return make_loop(device, loop);
}

Result<LoopKernel> make_fill_loop(CudaDevice& device, DType dtype, double value, std::int64_t n) {
  const Scalar scalar = scalar_of(dtype);
  ElementwiseLoop loop{.n = n};
  loop.steps.push_back({"return " + literal(dtype, value) + ";", {}, scalar});
  loop.outputs.push_back({0, flat_view(scalar, n)});
  return make_loop(device, loop);
}

Status clear_memory(CudaStream& stream, std::byte* p, std::size_t bytes) {
  if (bytes == 0) return ok_status();
  stream.device().enter();
  const Libraries& lib = stream.device().lib();
  return lib.check(lib.cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(p), 0, bytes, stream.raw()),
                   "clearing memory");
}

Status copy_memory(CudaStream& stream, const std::byte* from, std::byte* to, std::size_t bytes) {
  if (bytes == 0 || from == to) return ok_status();
  stream.device().enter();
  const Libraries& lib = stream.device().lib();
  return lib.check(lib.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
                                     bytes, stream.raw()),
                   "copying memory");
}

// reshape and stop_gradient: in place there is nothing to move.
Made make_same_elements(const CudaQuery& q) {
  const std::size_t bytes = q.outputs[0].num_bytes();
  return make_kernel([bytes](const CudaArgs& a) -> Status {
    return copy_memory(a.stream, a.in(0).raw(), a.out(0).raw(), bytes);
  });
}

Made make_broadcast_to(const CudaQuery& q) {
  const StridedView view = broadcast_view(word_of(q.inputs[0].dtype), q.inputs[0].shape, q.outputs[0].shape);
  return make_single(q, view.dims);
}

Made make_transpose(const CudaQuery& q) {
  const Shape& x = q.inputs[0].shape;
  const Ints& order = q.attrs.get_ints("order");
  const auto strides = row_major_strides(x);
  std::vector<StridedDim> dims;
  for (int d = 0; d < x.rank(); ++d) {
    const std::int64_t from = order.empty() ? x.rank() - 1 - d : order[idx(d)];
    dims.push_back({x[static_cast<int>(from)], strides[idx(from)]});
  }
  TR_ASSIGN_OR_RETURN(auto tiled,
                      make_tiled_transpose(q.device, {q.inputs[0].dtype, dims}, q.outputs[0].dtype));
  if (tiled != nullptr) return tiled;
  return make_single(q, std::move(dims));
}

// Repetitions are dimensions of their own, with a stride of 0.
Made make_tile(const CudaQuery& q) {
  const Ints& times = q.attrs.get_ints("times");
  std::vector<StridedDim> dims;
  std::size_t d = 0;
  for (const StridedDim& g : dims_of(q.inputs[0].shape)) {
    dims.push_back({times[d++], 0});
    dims.push_back(g);
  }
  return make_single(q, std::move(dims));
}

Made make_reverse(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const auto axes, op::detail::resolve_axes(q.inputs[0], q.attrs));
  std::vector<StridedDim> dims = dims_of(q.inputs[0].shape);
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (axes.reduced[d]) dims[d].stride = -dims[d].stride;
  return make_single(q, std::move(dims));
}

Made make_slice(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(auto slice, slice_dims(q.inputs[0], q.attrs));
  return make_single(q, std::move(slice.first), slice.second);
}

Made make_slice_grad(const CudaQuery& q) {
  const TensorType& dx = q.outputs[0];
  Copy copy;
  if (q.inputs[0].shape.num_elems() > 0) {
    TR_ASSIGN_OR_RETURN(auto slice, slice_dims(dx, q.attrs));
    TR_ASSIGN_OR_RETURN(copy.kernel, make_copy(q.device, {q.inputs[0].dtype, dims_of(q.inputs[0].shape)},
                                               {dx.dtype, slice.first}));
    copy.to_bytes = slice.second * size_of(dx.dtype);
  }
  const std::size_t bytes = q.inputs[0] == dx ? 0 : dx.num_bytes();  // all of it is written
  return make_kernel([copy = std::move(copy), bytes](const CudaArgs& a) -> Status {
    TR_RETURN_IF_ERROR(clear_memory(a.stream, a.out(0).raw(), bytes));
    return run_copy(a.stream, copy, a.in(0), a.out(0));
  });
}

Made make_pad(const CudaQuery& q) {
  const TensorType &x = q.inputs[0], &y = q.outputs[0];
  TR_ASSIGN_OR_RETURN(LoopKernel border,
                      make_fill_loop(q.device, y.dtype, q.attrs.get_float("value"), y.shape.num_elems()));
  Copy copy;
  if (x.shape.num_elems() > 0) {
    const auto strides = row_major_strides(y.shape);
    std::vector<StridedDim> inside;
    for (int d = 0; d < x.shape.rank(); ++d) {
      inside.push_back({x.shape[d], strides[idx(d)]});
      copy.to_bytes += q.attrs.get_ints("low")[idx(d)] * strides[idx(d)] * size_of(y.dtype);
    }
    TR_ASSIGN_OR_RETURN(copy.kernel,
                        make_copy(q.device, {x.dtype, dims_of(x.shape)}, {y.dtype, std::move(inside)}));
  }
  return make_kernel([border = std::move(border), copy = std::move(copy)](const CudaArgs& a) -> Status {
    std::byte* const whole[] = {a.out(0).raw()};
    TR_RETURN_IF_ERROR(border.run(a.stream, whole));
    return run_copy(a.stream, copy, a.in(0), a.out(0));
  });
}

Made make_concat(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const int axis,
                      op::detail::resolve_axis("axis", q.attrs.get_int("axis"), q.outputs[0]));
  TR_ASSIGN_OR_RETURN(auto copies, piece_copies(q.device, q.outputs[0], q.inputs, axis, true));
  return make_kernel([copies = std::move(copies)](const CudaArgs& a) -> Status {
    for (std::size_t k = 0; k < copies.size(); ++k)
      TR_RETURN_IF_ERROR(run_copy(a.stream, copies[k], a.inputs[k], a.out(0)));
    return ok_status();
  });
}

Made make_split(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const int axis, op::detail::resolve_axis("axis", q.attrs.get_int("axis"), q.inputs[0]));
  TR_ASSIGN_OR_RETURN(auto copies, piece_copies(q.device, q.inputs[0], q.outputs, axis, false));
  return make_kernel([copies = std::move(copies)](const CudaArgs& a) -> Status {
    for (std::size_t k = 0; k < copies.size(); ++k)
      TR_RETURN_IF_ERROR(run_copy(a.stream, copies[k], a.in(0), a.outputs[k]));
    return ok_status();
  });
}

}  // namespace trireme::kernel::cuda
