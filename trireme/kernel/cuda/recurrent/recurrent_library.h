// What kernels keep between a recurrent layer and its gradient. No CUDA header is needed.
#pragma once

#include <cstdint>
#include <optional>

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::kernel::cuda {

struct RecurrentReserve {
  std::int64_t algorithm = 0;  // of both passes
  std::int64_t bytes = 0;
};
// For a node of rnn, lstm or gru; none where it computes nothing. The same wherever GPU and libraries are.
std::optional<RecurrentReserve> recurrent_reserve(const CudaQuery& query);
// Whether cuDNN runs such a node or one of recurrent_kept.
bool recurrence_fits(const CudaQuery& query);

}  // namespace trireme::kernel::cuda
