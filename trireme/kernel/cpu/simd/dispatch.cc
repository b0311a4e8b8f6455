#include "trireme/kernel/cpu/simd/sets.h"

namespace trireme::kernel {

#ifdef __x86_64__
namespace {

// The best of three for this processor.
template <typename Loops>
const Loops& best_of(const Loops& avx512, const Loops& avx2, const Loops& baseline) {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    return avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2;
  return baseline;
}

}  // namespace

const VectorLoops& vector_loops() { return best_of(kAvx512Loops, kAvx2Loops, kBaselineLoops); }
const FunctionLoops& function_loops() {
  return best_of(kAvx512Functions, kAvx2Functions, kBaselineFunctions);
}
const RowLoops& row_loops() { return best_of(kAvx512Rows, kAvx2Rows, kBaselineRows); }
const MiscLoops& misc_loops() { return best_of(kAvx512Misc, kAvx2Misc, kBaselineMisc); }
const CellSet& cell_loops() { return best_of(kAvx512Cells, kAvx2Cells, kBaselineCells); }
const UpdateLoops& update_loops() { return best_of(kAvx512Updates, kAvx2Updates, kBaselineUpdates); }
const WinogradLoops& winograd_loops(std::int64_t taps) {
  const WinogradSet& set = best_of(kAvx512Winograd, kAvx2Winograd, kBaselineWinograd);
  return taps == 3 ? set.three : set.five;
}
const ChannelLoops& channel_loops() { return best_of(kAvx512Channels, kAvx2Channels, kBaselineChannels); }

#else

const VectorLoops& vector_loops() { return kBaselineLoops; }
const FunctionLoops& function_loops() { return kBaselineFunctions; }
const RowLoops& row_loops() { return kBaselineRows; }
const UpdateLoops& update_loops() { return kBaselineUpdates; }
const CellSet& cell_loops() { return kBaselineCells; }
const MiscLoops& misc_loops() { return kBaselineMisc; }
const WinogradLoops& winograd_loops(std::int64_t taps) {
  return taps == 3 ? kBaselineWinograd.three : kBaselineWinograd.five;
}
const ChannelLoops& channel_loops() { return kBaselineChannels; }

#endif

}  // namespace trireme::kernel
