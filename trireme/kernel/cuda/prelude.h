// The CUDA C++ text that comes before every kernel: element types, conversions, reductions, Philox.
#pragma once

#include <string_view>

namespace trireme::kernel::cuda {

std::string_view prelude();

}  // namespace trireme::kernel::cuda
