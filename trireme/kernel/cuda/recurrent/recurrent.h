// Our own kernels of recurrent layers: what they keep for gradients.
#pragma once

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::kernel::cuda {

// For a node of rnn, lstm or gru: its gates before the functions, and its states.
std::size_t own_reserve_bytes(const CudaQuery& forward);

}  // namespace trireme::kernel::cuda
