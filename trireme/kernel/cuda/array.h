// What ops that move elements share.
#pragma once

#include <vector>

#include "trireme/kernel/cuda/elementwise.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {

// Elements as they lie at some place.
struct Elements {
  DType dtype;
  std::vector<StridedDim> dims;
};
// from[i] -> to[i] for every i. Elements of one dtype are moved and never looked at; else they are cast, from
// one floating dtype to another.
Result<LoopKernel> make_copy(CudaDevice& device, Elements from, Elements to);
// Every element gets `value`, as `cast` converts it.
Result<LoopKernel> make_fill_loop(CudaDevice& device, DType dtype, double value, std::int64_t n);
std::vector<StridedDim> dims_of(const Shape& shape);  // row-major

Status clear_memory(CudaStream& stream, std::byte* p, std::size_t bytes);  // to zeros
Status copy_memory(CudaStream& stream, const std::byte* from, std::byte* to, std::size_t bytes);

// A transposition through shared memory, where x and y run along different dimensions: dims as of
// StridedView, over the elements of y. Null where a plain loop is as good.
Result<std::unique_ptr<CudaKernel>> make_tiled_transpose(CudaDevice& device, const Elements& x, DType y);

}  // namespace trireme::kernel::cuda
