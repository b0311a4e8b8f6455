// Texts of pooling over images whose channels are last in memory; pool.cc puts its constants before them.
#pragma once

namespace trireme::kernel::cuda {

extern const char* const kPoolWindowsLast;  // pool_windows
extern const char* const kPoolSpreadLast;   // pool_spread

}  // namespace trireme::kernel::cuda
