// Which ops have kernels that read and write bf16 as it is, or images with the channels last.
#pragma once

#include <set>
#include <string>

#include "trireme/tensor/dtype.h"

namespace trireme::kernel {

using OpNames = std::set<std::string, std::less<>>;

// For the passes `absorb_casts` and `channels_last`, on the CPU. Of bf16: empty where the processor has no
// units for it, or the library does not use them: f32 between casts is as fast there. Of f32: empty in builds
// without oneDNN, whose convolutions are of planes.
OpNames adaptable_cpu_ops();
OpNames channels_last_cpu_ops(DType dtype);
// For the pass `lower_gates`, on the CPU: whether lstm_kept and its gradient have kernels in bf16.
bool lowers_cpu_gates();

}  // namespace trireme::kernel
