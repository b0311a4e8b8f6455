#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/simd/sets.h"

#ifdef __x86_64__

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace trireme::kernel::avx2 {
#include "trireme/kernel/cpu/simd/set.inc"
}  // namespace trireme::kernel::avx2
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace trireme::kernel {
const VectorLoops kAvx2Loops = TR_VECTOR_LOOPS(avx2);
const FunctionLoops kAvx2Functions = TR_FUNCTION_LOOPS(avx2);
const RowLoops kAvx2Rows = TR_ROW_LOOPS(avx2);
const UpdateLoops kAvx2Updates = TR_UPDATE_LOOPS(avx2);
const CellSet kAvx2Cells = TR_CELL_LOOPS(avx2);
const MiscLoops kAvx2Misc = TR_MISC_LOOPS(avx2);
const WinogradSet kAvx2Winograd = TR_WINOGRAD_SET(avx2);
const ChannelLoops kAvx2Channels = TR_CHANNEL_LOOPS(avx2);
}  // namespace trireme::kernel

#endif  // __x86_64__
