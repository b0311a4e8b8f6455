// Products by a kernel of our own: any floating dtype, any size, no epilogue, slow.
#pragma once

#include "trireme/kernel/cuda/matmul/blas.h"

namespace trireme::kernel::cuda {

Result<const Function*> plain_product(CudaDevice& device, const ProductSpec& spec);
Status enqueue_plain(CudaStream& stream, const Function& f, const ProductSpec& spec, const void* a,
                     const void* b, void* c);

}  // namespace trireme::kernel::cuda
