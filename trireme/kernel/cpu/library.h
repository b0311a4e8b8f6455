// What the kernels of this build are made of, as text.
#pragma once

#include <string>

namespace trireme::kernel {
std::string gemm_library();  // "blas=OpenBLAS 0.3.21" or "onednn=3.0.0"
bool has_bf16_units();       // whether the library uses units of the processor for bf16
}  // namespace trireme::kernel
