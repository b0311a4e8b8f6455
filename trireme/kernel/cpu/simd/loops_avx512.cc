#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/simd/sets.h"

#ifdef __x86_64__
#include <immintrin.h>

#define TR_AVX512

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,prefer-vector-width=512")
#endif
namespace trireme::kernel::avx512 {
#include "trireme/kernel/cpu/simd/set.inc"
}  // namespace trireme::kernel::avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace trireme::kernel {
const VectorLoops kAvx512Loops = TR_VECTOR_LOOPS(avx512);
const FunctionLoops kAvx512Functions = TR_FUNCTION_LOOPS(avx512);
const RowLoops kAvx512Rows = TR_ROW_LOOPS(avx512);
const UpdateLoops kAvx512Updates = TR_UPDATE_LOOPS(avx512);
const CellSet kAvx512Cells = TR_CELL_LOOPS(avx512);
const MiscLoops kAvx512Misc = TR_MISC_LOOPS(avx512);
const WinogradSet kAvx512Winograd = TR_WINOGRAD_SET(avx512);
const ChannelLoops kAvx512Channels = TR_CHANNEL_LOOPS(avx512);
}  // namespace trireme::kernel

#endif  // __x86_64__
